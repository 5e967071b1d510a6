// Three turns of openai-node, chained or with a history of the client's own, streamed or not.
import OpenAI from "openai";

const { url, prompts, streamed, chained } = JSON.parse(process.argv[2]);
const client = new OpenAI({ baseURL: url, apiKey: "none needed", maxRetries: 0 });
const tools = [{ type: "shell", environment: { type: "container_auto" } }];
const history = [];
const turns = [];
let before;
for (const prompt of prompts) {
  const said = { role: "user", content: prompt };
  const asked = { model: "limpet/script", tools, input: chained ? [said] : [...history, said] };
  if (chained && before) asked.previous_response_id = before;
  const response = streamed
    ? await client.responses.stream(asked).finalResponse()
    : await client.responses.create(asked);
  before = response.id;
  history.push(said, ...response.output);
  turns.push({ text: response.output_text, container: response.container_id, kinds: response.output.map((item) => item.type) });
}
console.log(JSON.stringify(turns));
