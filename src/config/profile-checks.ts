import type { Issue } from '../errors.ts';
import { exceeds } from './formats.ts';
import { type Tree, tree } from './raw.ts';
import { lifetimeSchema, limitsSchema } from './schema.ts';

const limitDefaults = limitsSchema.parse({});
const lifetimeDefaults = lifetimeSchema.parse({});

/** What the fields of one profile say about each other, and about the limits of the installation. */
export function profileIssues(path: string, profile: Tree, limits: Tree): Issue[] {
  return [
    ...sourceIssues(path, profile),
    ...agentIssues(`${path}.agent`, tree(profile.agent), profile),
    ...workspaceIssues(`${path}.workspace`, tree(profile.workspace), limits),
    ...lifetimeIssues(`${path}.lifetime`, tree(profile.lifetime), tree(profile.workspace), limits),
  ];
}

function sourceIssues(path: string, profile: Tree): Issue[] {
  const given = ['podTemplate', 'podTemplateFile'].filter((key) => profile[key] !== undefined);
  if (given.length === 1) return [];
  return given.length === 0
    ? [{ path: `${path}.podTemplateFile`, message: 'is missing: give podTemplateFile, or podTemplate with the text itself' }]
    : [
        {
          path: `${path}.podTemplate`,
          message: 'give either podTemplate or podTemplateFile, not both: one of them would be ignored',
        },
      ];
}

/** Which field belongs to which delivery; a field of another delivery would silently do nothing. */
const deliveryFields = { binaries: 'upload', path: 'image', image: 'init_image' } as const;

function agentIssues(path: string, agent: Tree, profile: Tree): Issue[] {
  const delivery = agent.delivery ?? 'config_map';
  const issues: Issue[] = [];
  for (const [field, owner] of Object.entries(deliveryFields)) {
    if (agent[field] !== undefined && delivery !== owner) {
      issues.push({ path: `${path}.${field}`, message: `belongs to delivery ${owner}, not ${String(delivery)}` });
    }
    if (agent[field] === undefined && delivery === owner)
      issues.push({ path: `${path}.${field}`, message: `is missing: delivery ${owner} needs it` });
  }
  const platform = profile.platform ?? 'linux/amd64';
  if (delivery === 'upload' && agent.binaries !== undefined && typeof tree(agent.binaries)[String(platform)] !== 'string')
    issues.push({ path: `${path}.binaries.${String(platform)}`, message: 'is missing: it is the platform of this profile' });
  if (delivery === 'image' && typeof agent.path === 'string' && !/^\/[^\s'"]*$/.test(agent.path))
    issues.push({ path: `${path}.path`, message: 'must be an absolute path in the image, without spaces and quotes' });
  if (agent.protocol === 'agentctl') issues.push(...agentctlIssues(path, profile));
  if (agent.protocol === 'agentctl' && (delivery === 'config_map' || delivery === 'none')) {
    issues.push({
      path: `${path}.protocol`,
      message: `delivery ${delivery} brings no agentctl: use upload, init_image or image`,
    });
  }
  return issues;
}

/** What an agentctl cannot do for us. */
function agentctlIssues(path: string, profile: Tree): Issue[] {
  const issues: Issue[] = [];
  const at = path.replace(/\.agent$/, '');
  if (profile.handshake === 'exec')
    issues.push({ path: `${at}.handshake`, message: 'must be auto, port_forward or pod_ip: agentctl has no relay for exec' });
  const { idleSeconds } = tree(profile.lifetime);
  if (typeof idleSeconds === 'number' && idleSeconds > 0)
    issues.push({ path: `${at}.lifetime.idleSeconds`, message: 'must be 0: agentctl does not tell when it was used last' });
  return issues;
}

function workspaceIssues(path: string, workspace: Tree, limits: Tree): Issue[] {
  const most = typeof limits.claimSize === 'string' ? limits.claimSize : limitDefaults.claimSize;
  return ['size', 'sizeLimit']
    .filter((field) => exceeds(workspace[field], most))
    .map((field) => ({ path: `${path}.${field}`, message: `must be at most ${most} (limits.claimSize)` }));
}

function lifetimeIssues(path: string, lifetime: Tree, workspace: Tree, limits: Tree): Issue[] {
  const issues: Issue[] = [];
  const all = { ...lifetimeDefaults, ...lifetime };
  const most = typeof limits.maxLifetimeSeconds === 'number' ? limits.maxLifetimeSeconds : limitDefaults.maxLifetimeSeconds;
  if (typeof all.maxSeconds === 'number' && all.maxSeconds > most) {
    issues.push({ path: `${path}.maxSeconds`, message: `must be at most ${most} (limits.maxLifetimeSeconds)` });
  }
  if (all.maxSeconds === 0)
    issues.push({ path: `${path}.maxSeconds`, message: 'must be more than 0: an instance that ends at once cannot be used' });
  if (workspace.mode !== 'empty_dir') return issues;
  const needsClaim = 'must be teardown: suspending keeps the claim, and an empty_dir workspace has none';
  if (all.idleSeconds !== 0 && all.onIdle === 'suspend') issues.push({ path: `${path}.onIdle`, message: needsClaim });
  if (all.onExpire === 'suspend') issues.push({ path: `${path}.onExpire`, message: needsClaim });
  return issues;
}
