import { buildAgent } from '../../scripts/build-agent.mjs';

/** The agent bundle that tests deliver into Pods is built once, from the sources under test. */
export default async function setup() {
  await buildAgent();
}
