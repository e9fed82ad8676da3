import { agentctlBootCommand, agentctlBootFile, agentctlBootProof } from './agentctl-bootstrap.ts';
import { bootstrapCommand } from './boot.ts';
import { type BootstrapInput, bootstrapInput, bootstrapProof } from './delivery.ts';

/** One exec in the main container, and what it has to print: its exit code alone proves nothing (C58). */
export interface BootstrapExec {
  readonly command: readonly string[];
  readonly stdin: Buffer;
  readonly proof: string;
}

/** Our own agent takes what it is handed by itself; for an agentctl the shell does. */
export function bootstrapExec(protocol: 'windlass' | 'agentctl', input: BootstrapInput): BootstrapExec {
  if (protocol === 'agentctl')
    return { command: agentctlBootCommand(input), stdin: Buffer.from(agentctlBootFile(input)), proof: agentctlBootProof(input) };
  return { command: bootstrapCommand(), stdin: bootstrapInput(input), proof: bootstrapProof(input) };
}
