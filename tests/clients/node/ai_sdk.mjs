// Three turns of the Vercel AI SDK: from the second on it names what it has by item_reference.
import { createOpenAI } from "@ai-sdk/openai";
import { generateText, streamText } from "ai";

const { url, prompts, streamed } = JSON.parse(process.argv[2]);
const bodies = [];
const openai = createOpenAI({
  baseURL: url,
  apiKey: "none needed",
  fetch: (address, options) => {
    bodies.push(JSON.parse(options.body));
    return fetch(address, options);
  },
});
const tools = { shell: openai.tools.shell({ environment: { type: "containerAuto" } }) };
const messages = [];
const turns = [];
for (const prompt of prompts) {
  messages.push({ role: "user", content: prompt });
  const asked = { model: openai.responses("limpet/script"), tools, messages, maxRetries: 0 };
  const result = streamed ? streamText({ ...asked, onError: ({ error }) => { throw error; } }) : await generateText(asked);
  const text = await result.text;
  messages.push(...(await result.response).messages);
  turns.push({ text, kinds: bodies.at(-1).input.map((item) => item.type ?? item.role) });
}
console.log(JSON.stringify(turns));
