import type { ProfileConfig } from '../config/schema.ts';
import type { Stage } from './stage.ts';
import { bootstrap } from './stages/bootstrap.ts';
import { connect } from './stages/connect.ts';
import { pod } from './stages/pod.ts';
import { ready } from './stages/ready.ts';
import { workspace } from './stages/workspace.ts';

/** The stages of a launch, in order; a removal walks them backwards. Adding one is its file and its word here. */
export const allStages: readonly Stage[] = [workspace, pod, bootstrap, connect, ready];

export function planOf(profile: ProfileConfig): readonly Stage[] {
  return profile.agent.delivery === 'none' ? [workspace, pod, ready] : allStages;
}
