// The Vercel AI SDK runs the calls of a shell tool itself: it sends the tool without an environment.
import { execFileSync } from "node:child_process";
import { createOpenAI } from "@ai-sdk/openai";
import { generateText, isStepCount, streamText } from "ai";

const { url, model, prompt, directory, streamed } = JSON.parse(process.argv[2]);
const sent = [];
const openai = createOpenAI({
  baseURL: url,
  apiKey: "none needed",
  fetch: (address, options) => {
    sent.push(JSON.parse(options.body).tools);
    return fetch(address, options);
  },
});
const shell = openai.tools.shell({
  execute: async ({ action }) => ({
    output: action.commands.map((command) => ({
      stdout: execFileSync("bash", ["-c", command], { cwd: directory, encoding: "utf8" }),
      stderr: "",
      outcome: { type: "exit", exitCode: 0 },
    })),
  }),
});
const asked = { model: openai.responses(model), tools: { shell }, prompt, maxRetries: 0, stopWhen: isStepCount(4) };
const result = streamed ? streamText({ ...asked, onError: ({ error }) => { throw error; } }) : await generateText(asked);
console.log(JSON.stringify({ text: await result.text, steps: (await result.steps).length, tools: sent[0] }));
