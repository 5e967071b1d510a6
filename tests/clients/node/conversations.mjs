// Three turns of openai-node in a conversation that the server keeps, and its items.
import OpenAI from "openai";

const { url, prompts, streamed } = JSON.parse(process.argv[2]);
const client = new OpenAI({ baseURL: url, apiKey: "none needed", maxRetries: 0 });
const tools = [{ type: "shell", environment: { type: "container_auto" } }];
const talk = await client.conversations.create({ metadata: { topic: "notes" } });
const turns = [];
for (const input of prompts) {
  const asked = { model: "limpet/script", tools, input, conversation: talk.id };
  const response = streamed
    ? await client.responses.stream(asked).finalResponse()
    : await client.responses.create(asked);
  turns.push(response.output_text);
}
const kinds = [];
for await (const item of client.conversations.items.list(talk.id, { order: "asc", limit: 5 })) kinds.push(item.type);
const counted = await client.responses.inputTokens.count({ model: "limpet/script", input: "one", conversation: talk.id });
await client.conversations.items.delete((await client.conversations.items.list(talk.id)).data[0].id, { conversation_id: talk.id });
const left = (await client.conversations.items.list(talk.id, { limit: 100 })).data.length;
await client.conversations.delete(talk.id);
console.log(JSON.stringify({ turns, kinds, left, tokens: counted.input_tokens }));
