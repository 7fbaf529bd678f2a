import t from 'tap'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { policyReaders } from '../../../lib/model/policy.js'
import { newProject, type Project, projectReaders } from '../../../lib/model/project.js'
import { bringsOf, copyList } from '../../../lib/carry/transfer/brings.js'
import type { ImportPlan } from '../../../lib/carry/transfer/plan.js'
import { maxLineBytes } from '../../../lib/base/text.js'
import { manifestLineOf, scriptedLineOf } from '../../../lib/core/install/manifest.js'

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

const entry = { size: 1, mode: 0o106755, sha256: 'a'.repeat(64), mtimeMs: 1 }
const harmless = { ...entry, mode: 0o100755 }
const owner = { uid: 0, gid: 0 }

t.test('copies lists without owners, and without bits that give the rights of an owner', async t => {
  const directory = t.testdir()
  let number = 0
  const copy = async (lines: Array<object | string | Buffer>, lineOf: (value: unknown) => object | null) => {
    const [from, to] = [join(directory, `from${++number}`), join(directory, `to${number}`)]
    const bytes = (line: object | string | Buffer): Buffer =>
      Buffer.isBuffer(line) ? line : Buffer.from(typeof line === 'string' ? line : JSON.stringify(line))
    writeFileSync(from, Buffer.concat(lines.flatMap(line => [bytes(line), Buffer.from('\n')])))
    const isWhole = await copyList(from, to, lineOf)
    const parsed = (text: string): unknown => (text === '-' ? text : JSON.parse(text))
    return { isWhole, lines: readFileSync(to, 'utf8').split('\n').slice(0, -1).map(parsed) }
  }
  t.strictSame(
    await copy(
      [
        { path: 'a', ...entry, ino: 1, before: { ...entry, kept: 'before', owner } },
        { removed: 'b', before: { ...entry, owner } },
        { removed: 'c', before: null },
        { made: 'd' },
        { made: 'e', before: { ...entry, owner } },
        { path: 'f', ...entry, owner, before: null },
        { path: 'g', ...entry, before: 'same' }
      ],
      manifestLineOf
    ),
    {
      isWhole: true,
      lines: [
        { path: 'a', ...harmless, ino: 1, before: { ...harmless, kept: 'before' } },
        { removed: 'b', before: harmless },
        { removed: 'c', before: null },
        { made: 'd' },
        { made: 'e', before: harmless },
        { path: 'f', ...harmless, before: null },
        { path: 'g', ...harmless, before: harmless }
      ]
    }
  )
  t.strictSame(await copy([{ path: 'a', ...entry, isEarly: true }], scriptedLineOf), {
    isWhole: true,
    lines: [{ path: 'a', ...harmless, isEarly: true }]
  })
  t.strictSame(await copy([{ path: 'a', ...harmless, mode: 2 ** 32 + 0o106755, before: null }], manifestLineOf), {
    isWhole: true,
    lines: [{ path: 'a', ...harmless, before: null }]
  })
  // Read as UTF-8, it becomes longer than a line may be, and its end a line of its own.
  const long = Buffer.concat([
    Buffer.from('{"path":"'),
    Buffer.alloc(maxLineBytes / 2, 0xff),
    Buffer.from(`",${JSON.stringify({ ...entry, before: null }).slice(1)}`)
  ])
  for (const broken of ['', '{', 'null', '{"path":"../a"}', long]) {
    t.strictSame(await copy([{ made: 'd' }, broken], manifestLineOf), { isWhole: false, lines: [{ made: 'd' }, '-'] })
  }
})
