// The official client of TypeScript, in both versions of the protocol.
//
//     node typescript_client.mjs PROGRAM FOLDER ADDRESS TOKEN

import assert from "node:assert";
import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { StdioClientTransport } from "@modelcontextprotocol/client/stdio";

const [program, folder, address, token] = process.argv.slice(2);
const count = (epsilon) => `SELECT LAPLACE(eps=${epsilon}) COUNT(*) AS n FROM people`;

const transports = {
  stdio: () => new StdioClientTransport({ command: program, args: ["mcp", `${folder}/study.db`, "--analyst", "lab"] }),
  HTTP: () => new StreamableHTTPClientTransport(new URL(`http://${address}/`), {
    requestInit: { headers: { Authorization: `Bearer ${token}` } },
  }),
};

let epsilon = 2;
for (const mode of ["legacy", "auto"]) {
  for (const [name, transport] of Object.entries(transports)) {
    epsilon += 0.125;
    const client = new Client({ name: "test", version: "1" }, { versionNegotiation: { mode } });
    await client.connect(transport());
    const { tools } = await client.listTools();
    assert.deepEqual(tools.map((tool) => tool.name), ["tables", "price", "ask", "budget", "release_tables"]);
    const answer = await client.callTool({ name: "ask", arguments: { sql: count(epsilon), epsilon } });
    assert.ok(!answer.isError, JSON.stringify(answer));
    assert.ok(answer.structuredContent.rows[0][0].error > 0);
    const refused = await client.callTool({ name: "price", arguments: { sql: "SELECT * FROM people" } });
    assert.equal(refused.structuredContent.error.code, "HQ001");
    await client.close();
    console.log(`TypeScript client, ${name}, ${mode}: ok`);
  }
}
