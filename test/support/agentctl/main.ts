import { startAgentctl } from './stub.ts';

/** The stub as a program of its own, for Pods. SIGTERM stops its instances and ends it with 0, as the original's does. */
async function main(): Promise<void> {
  const agent = await startAgentctl(process.env);
  process.once('SIGTERM', () => void agent.close().then(() => process.exit(0)));
  process.stdout.write(`${JSON.stringify({ msg: 'agentctl stub', port: agent.port })}\n`);
}

void main();
