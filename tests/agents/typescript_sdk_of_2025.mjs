// The client of the first TypeScript SDK, which knows the protocol with a handshake.
//
//     node typescript_sdk_of_2025.mjs PROGRAM FOLDER ADDRESS TOKEN

import assert from "node:assert";
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";

const [program, folder, address, token] = process.argv.slice(2);
const transports = [
  new StdioClientTransport({ command: program, args: ["mcp", `${folder}/study.db`, "--analyst", "lab"] }),
  new StreamableHTTPClientTransport(new URL(`http://${address}/`), {
    requestInit: { headers: { Authorization: `Bearer ${token}` } },
  }),
];

let epsilon = 3;
for (const transport of transports) {
  epsilon += 0.125;
  const client = new Client({ name: "test", version: "1" });
  await client.connect(transport);
  const sql = `SELECT LAPLACE(eps=${epsilon}) COUNT(*) AS n FROM people`;
  const answer = await client.callTool({ name: "ask", arguments: { sql, epsilon } });
  assert.ok(!answer.isError, JSON.stringify(answer));
  assert.ok(answer.structuredContent.receipt.charge > 0);
  await client.close();
}
console.log("TypeScript SDK of 2025: ok");
