import t from 'tap'
import { checkProject, checkScope, type Scope } from '../../lib/api/scope.js'
import type { Caller } from '../../lib/auth/bearer.js'
import { type Refusal, notFound } from '../../lib/base/errors.js'

const lookup = {
  ofDeployment: (id: string) => (id === 'dep_shop' ? 'proj_shop' : id === 'dep_blog' ? 'proj_blog' : undefined),
  ofLogSource: (id: string) => (id === 'lsrc_blog' ? 'proj_blog' : undefined),
  ofRollout: (id: string) => (id === 'ro_shop' ? 'proj_shop' : id === 'ro_blog' ? 'proj_blog' : undefined)
}
const all = { role: 'viewer', projects: null } as unknown as Caller
const shop = { role: 'viewer', projects: ['proj_shop'], token: { id: 'tok_a', name: 'ci' } } as unknown as Caller
const deployToken = { role: 'project', projects: ['proj_shop'] } as unknown as Caller

function codeOf(scope: Scope, actor: Caller, params: Record<string, string> = {}): string {
  try {
    checkScope(scope, { actor, params }, lookup)
    return 'in'
  } catch (error) {
    return (error as Refusal).code
  }
}

t.test('a caller without a scope may ask for everything', async t => {
  for (const scope of ['none', 'server', 'filtered', 'given', 'project', 'deployment', 'logSource', 'rollout'] as const)
    t.equal(codeOf(scope, all, { id: 'unknown' }), 'in', scope)
})

t.test('a limited caller gets its own projects, and 404 for all others', async t => {
  const cases: Array<[Scope, Record<string, string>, string]> = [
    ['none', {}, 'in'],
    ['filtered', {}, 'in'],
    ['given', {}, 'in'],
    ['server', {}, 'scope_too_narrow'],
    ['project', { id: 'proj_shop' }, 'in'],
    ['project', { id: 'proj_blog' }, 'not_found'],
    ['project', { id: 'proj_none' }, 'not_found'],
    ['deployment', { id: 'dep_shop' }, 'in'],
    ['deployment', { deployId: 'dep_blog' }, 'not_found'],
    ['deployment', { id: 'dep_none' }, 'not_found'],
    ['logSource', { sourceId: 'lsrc_blog' }, 'not_found'],
    ['logSource', { sourceId: 'lsrc_none' }, 'not_found'],
    ['rollout', { rolloutId: 'ro_shop' }, 'in'],
    ['rollout', { rolloutId: 'ro_blog' }, 'not_found'],
    ['rollout', { rolloutId: 'ro_none' }, 'not_found']
  ]
  for (const [scope, params, code] of cases)
    t.equal(codeOf(scope, shop, params), code, `${scope} ${JSON.stringify(params)}`)
  t.equal(codeOf('project', deployToken, { id: 'proj_blog' }), 'other_project')
  t.equal(codeOf('deployment', deployToken, { id: 'dep_none' }), 'in', 'the handler answers')
  t.equal(codeOf('rollout', deployToken, { rolloutId: 'ro_blog' }), 'other_project')
})

t.test('the refusal is that of an unknown id', async t => {
  t.throws(() => checkProject(shop, 'proj_blog', () => notFound('Project', 'proj_blog')), {
    message: 'Project not found: "proj_blog"'
  })
})
