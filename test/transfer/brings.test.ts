import t from 'tap'
import { policyReaders } from '../../lib/model/policy.js'
import { newProject, projectReaders, type Project } from '../../lib/model/project.js'
import { bringsOf } from '../../lib/transfer/brings.js'
import type { ImportPlan } from '../../lib/transfer/plan.js'

const usual = newProject({ name: 'shop', deployPath: '/srv/shop' }, { id: 'proj_a', token: 'the-token', at: '2030' })

function broughtBy(record: Project, more: Partial<ImportPlan> = {}) {
  const nothing = { settings: [], categories: [], tags: [], logSources: [], variables: [], notificationTargets: [] }
  const projects = [{ id: record.id, action: 'create' as const, record }]
  const plan = { ...nothing, deployments: [], notes: [], projects, ...more } as ImportPlan
  return bringsOf(plan, { restored: [], isSecret: () => false })
}

t.test('lists every command of a policy, and never the value of a header', async t => {
  const after = [
    { command: 'first\nsecond', timeout: 5 },
    { http: 'http://127.0.0.1/', header: { Authorization: 'Bearer secret' } }
  ]
  const gate = { after, interval: 1, timeout: 5, deadline: 30, successes: 2, stableFor: 0, onFailure: 'keep' as const }
  const { projects } = broughtBy({ ...usual, policy: { gate, prune: 'managed' }, pm2AppName: 'web', umask: '027' })
  const others = Object.fromEntries(projects[0]?.others.map(({ key, value }) => [key, value]) ?? [])
  t.match(others, {
    'policy.gate.after[0].command': 'first\nsecond',
    'policy.gate.after[1].http': 'http://127.0.0.1/',
    'policy.gate.after[1].header.Authorization': '***',
    'policy.prune': 'managed',
    pm2AppName: 'web',
    umask: '027'
  })
  t.same(broughtBy(usual).projects[0]?.others, [], 'defaults are not listed')
})

t.test('shows a mark in any text of a record, also one that a later version adds', async t => {
  const silent = ['token', 'description', 'env', 'categoryId', 'status', 'lastDeployAt', 'createdAt', 'updatedAt']
  const texts = Object.entries({ ...usual, ofTomorrow: '' }).filter(
    ([name, value]) => (typeof value === 'string' || value === null) && !silent.includes(name)
  )
  t.ok(texts.length > 8)
  for (const [name] of texts)
    t.match(JSON.stringify(broughtBy({ ...usual, [name]: `mark-${name}` })), `mark-${name}`, name)
  for (const name of [...Object.keys(policyReaders.fields), 'ofTomorrow'])
    t.match(JSON.stringify(broughtBy({ ...usual, policy: { [name]: { deep: ['mark'] } } })), 'mark', `policy.${name}`)
  for (const name of silent) t.notMatch(JSON.stringify(broughtBy({ ...usual, [name]: 'mark' })), 'mark', name)
  t.same(Object.keys(projectReaders.fields).length, Object.keys(usual).length)
})

t.test('lists the scripts of deployments, which a rollback runs, each text once', async t => {
  const row = (script: string) => ({ projectId: 'proj_a', scripts: [{ step: 'postDeploy', script }] })
  const deployments = ['a', 'a', 'b'].map((script, index) => {
    return { id: String(index), action: 'create', record: { row: row(script), output: '' } }
  }) as unknown as ImportPlan['deployments']
  t.same(broughtBy(usual, { deployments }).deploymentScripts, [
    { projectId: 'proj_a', step: 'postDeploy', script: 'a', deployments: 2 },
    { projectId: 'proj_a', step: 'postDeploy', script: 'b', deployments: 1 }
  ])
})
