import { apiVersionOf, type Resource, resources } from './resources.ts';

const verbs = ['create', 'delete', 'deletecollection', 'get', 'list', 'patch', 'update', 'watch'];
const streams = new Set(['exec', 'attach', 'portforward']);

/** The version whose behaviour this server follows. */
export const version = {
  major: '1',
  minor: '34',
  gitVersion: 'v1.34.0+windlass',
  gitCommit: '',
  gitTreeState: 'clean',
  buildDate: '1970-01-01T00:00:00Z',
  goVersion: 'none',
  compiler: 'none',
  platform: `${process.platform}/${process.arch === 'x64' ? 'amd64' : process.arch}`,
};

const groups = [...new Set(resources.map((resource) => resource.group))].filter(Boolean);

function subresourceVerbs(name: string): string[] {
  if (streams.has(name)) return ['create', 'get'];
  if (name === 'log') return ['get'];
  return name === 'finalize' ? ['update'] : ['get', 'patch', 'update'];
}

function entriesOf(resource: Resource): object[] {
  const { resource: plural, singular, namespaced, kind, shortNames, categories, virtual } = resource;
  const own = virtual ? ['create'] : plural === 'namespaces' ? verbs.filter((verb) => verb !== 'deletecollection') : verbs;
  const main = {
    name: plural,
    singularName: singular,
    namespaced,
    kind,
    verbs: own,
    ...(shortNames ? { shortNames } : {}),
    ...(categories ? { categories } : {}),
  };
  const under = (resource.subresources ?? []).map((name) => ({
    name: `${plural}/${name}`,
    singularName: '',
    namespaced,
    kind,
    verbs: subresourceVerbs(name),
  }));
  return [main, ...under];
}

const resourceList = (group: string, groupVersion: string) => ({
  kind: 'APIResourceList',
  apiVersion: 'v1',
  groupVersion,
  resources: resources.filter((resource) => resource.group === group).flatMap(entriesOf),
});

function groupInfo(name: string) {
  const preferred = { groupVersion: `${name}/v1`, version: 'v1' };
  return { name, versions: [preferred], preferredVersion: preferred };
}

const pathOf = (group: string): string => (group ? `apis/${group}/v1` : 'api/v1');

function openapiIndex() {
  const paths = ['', ...groups].map((group) => [pathOf(group), { serverRelativeURL: `/openapi/v3/${pathOf(group)}` }]);
  return { paths: Object.fromEntries(paths) };
}

const query = (name: string) => ({ name, in: 'query', schema: { type: 'string', uniqueItems: true } });

/** kubectl reads from here only which kinds exist and whether their patches know `fieldValidation`; schemas stay empty. */
function openapiDocument(group: string) {
  const paths = resources
    .filter((resource) => resource.group === group && !resource.virtual)
    .map((resource) => {
      const gvk = { group, version: resource.version, kind: resource.kind };
      const prefix = `/${pathOf(group)}/${resource.namespaced ? 'namespaces/{namespace}/' : ''}${resource.resource}`;
      const parameters = ['dryRun', 'fieldManager', 'fieldValidation'].map(query);
      const operation = (action: string) => ({
        parameters,
        'x-kubernetes-action': action,
        'x-kubernetes-group-version-kind': gvk,
        responses: {},
      });
      return [`${prefix}/{name}`, { patch: operation('patch'), put: operation('put') }];
    });
  const schemas = resources
    .filter((resource) => resource.group === group)
    .map((resource) => [
      `io.k8s.api.${group || 'core'}.v1.${resource.kind}`,
      { type: 'object', 'x-kubernetes-group-version-kind': [{ group, version: 'v1', kind: resource.kind }] },
    ]);
  return {
    openapi: '3.0.0',
    info: { title: 'Windlass local cluster', version: version.gitVersion },
    paths: Object.fromEntries(paths),
    components: { schemas: Object.fromEntries(schemas) },
  };
}

/** Every document that describes the API, by path; undefined for other paths. */
export function discover(path: string): unknown {
  const parts = path.split('/').filter(Boolean);
  const at = parts.join('/');
  if (at === 'version') return version;
  if (at === 'api') return { kind: 'APIVersions', versions: ['v1'], serverAddressByClientCIDRs: [] };
  if (at === 'apis') return { kind: 'APIGroupList', apiVersion: 'v1', groups: groups.map(groupInfo) };
  if (at === 'openapi/v3') return openapiIndex();
  for (const group of ['', ...groups]) {
    if (at === pathOf(group)) return resourceList(group, apiVersionOf({ group, version: 'v1' }));
    if (at === `openapi/v3/${pathOf(group)}`) return openapiDocument(group);
    if (group && at === `apis/${group}`) return { kind: 'APIGroup', apiVersion: 'v1', ...groupInfo(group) };
  }
  return at === ''
    ? { paths: ['/api', '/api/v1', '/apis', ...groups.map((group) => `/apis/${group}/v1`), '/openapi/v3', '/readyz', '/version'] }
    : undefined;
}
