// Three turns of @openai/agents with its hosted shell and a session of its own.
import { Agent, MemorySession, OpenAIProvider, Runner, setTracingDisabled, shellTool } from "@openai/agents";

const { url, prompts, streamed } = JSON.parse(process.argv[2]);
setTracingDisabled(true);
const modelProvider = new OpenAIProvider({ baseURL: url, apiKey: "none needed", useResponses: true });
const runner = new Runner({ modelProvider });
const agent = new Agent({
  name: "worker",
  model: "limpet/script",
  tools: [shellTool({ environment: { type: "container_auto" } })],
});
const session = new MemorySession();
const turns = [];
for (const prompt of prompts) {
  const result = await runner.run(agent, prompt, { session, stream: streamed });
  if (streamed) {
    for await (const _ of result) continue;
    await result.completed;
  }
  turns.push({ text: result.finalOutput });
}
console.log(JSON.stringify(turns));
