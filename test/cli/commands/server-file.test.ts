import t, { type Test as Tap } from 'tap'
import { writeFileSync } from 'node:fs'
import { createServer, request } from 'node:http'
import { join } from 'node:path'
import { type Stage, adminToken, startServer } from '../../support/server.js'
import { startFleet } from '../../support/fleet-on-server.js'
import { svc } from '../../support/svc.js'
import { noTerminal, svcOnTerminal } from '../../support/terminal.js'
import { readServerFile } from '../../../lib/cli/server-file/format.js'
import type { ServerState } from '../../../lib/cli/server-file/state.js'
import { planOf } from '../../../lib/cli/commands/server-file.js'
import { urlOf } from '../../support/on-loopback.js'

const token = 'gate-token-0123456789'
const hook = 'https://hooks.slack.com/services/hidden-path'
const signing = 'whsec_c2VjcmV0LW9mLXRoZS10ZXN0'
const secrets = { GATE: token, HOOK: hook, SIGNING: signing, KEY: 'key-of-the-shop' }

/** The commands for the file of a stage, with the file in its directory. */
function filesOf(stage: Stage, asToken = adminToken) {
  const env = { SVC_SERVER_URL: stage.url, SVC_TOKEN: asToken }
  const path = join(stage.sites, 'svc.server.json')
  const run = (line: string, more: Record<string, string> = {}) =>
    svc(line.split(' '), { cwd: stage.sites, env: { ...env, ...more } })
  return {
    path,
    write: (file: object | string) =>
      writeFileSync(
        path,
        typeof file === 'string' ? file : JSON.stringify({ format: 'svc-server-1', ...file }, null, 2)
      ),
    apply: (options: string, more?: Record<string, string>) => run(`apply ${options}`.trim(), more),
    exported: async () => JSON.parse((await run('settings export')).stdout) as Record<string, any>,
    run
  }
}

/** Gives a server something of everything that the file has. */
async function furnish(stage: Stage): Promise<void> {
  const { client } = stage
  const { category } = (await client.post('/api/categories', { name: 'Web', color: 'blue', sortOrder: 3 })).body
  const { tag } = (await client.post('/api/tags', { name: 'customer', color: 'green' })).body
  const staging = await stage.createProject('staging', { deployPath: '/srv/staging', env: 'staging' })
  const shop = await stage.createProject('shop', {
    deployPath: '/srv/shop',
    description: 'The shop',
    postDeployScript: 'echo "${HOME}" done',
    categoryId: category.id,
    tagIds: [tag.id]
  })
  const items = [{ filePath: '/var/log/shop.log' }, { filePath: '/var/log/web.log', label: 'web', kind: 'nginx' }]
  const sources = (await client.post(`/api/projects/${shop.id}/log-sources`, { items })).body.items
  const after = [
    { http: 'http://127.0.0.1:9/', header: { Authorization: `Bearer ${token}` } },
    { log: sources[0].id, none: 'ERROR', for: 5 }
  ]
  const policy = { drift: 'refuse', gate: { after }, promoteFrom: { projectId: staging.id, soakMinutes: 5 } }
  t.match(await client.put(`/api/projects/${shop.id}`, { policy }), { status: 200 })
  const variables = [
    { name: 'NODE_ENV', value: 'production' },
    { name: 'API_KEY', value: secrets.KEY, secret: true }
  ]
  t.match(await client.put(`/api/projects/${shop.id}/variables`, { variables }), { status: 200 })
  const target = { name: 'team', url: hook, events: ['deploy_failure'], projectIds: [shop.id] }
  t.match(await client.post('/api/notification-targets', target), { status: 200 })
  const signed = { name: 'signed', url: 'https://ci.example.org/in', secret: signing, enabled: false }
  t.match(await client.post('/api/notification-targets', signed), { status: 200 })
  const settings = { keep_archives: '7', gate_hosts: 'a.example.org,10.0.0.0/8', webhook_secret: signing }
  t.match(await client.put('/api/settings', settings), { status: 200 })
}

/** Puts variables of the environment in the place of the masked secrets of an export. */
function withVariables(file: Record<string, any>): Record<string, any> {
  const own = structuredClone(file)
  own['settings'].webhook_secret = '${SIGNING}'
  const shop = own['projects'].find(({ name }: { name: string }) => name === 'shop')
  shop.policy.gate.after[0].header.Authorization = 'Bearer ${GATE}'
  shop.variables.API_KEY.secret = '${KEY}'
  own['notificationTargets'][0].url = '${HOOK}'
  own['notificationTargets'][1].url = 'https://ci.example.org/in'
  own['notificationTargets'][1].secret = '${SIGNING}'
  return own
}

t.test('an export makes an empty second server the same', async t => {
  const directory = t.testdir({ one: {}, two: {} })
  const at = (name: string) => ({ testdir: () => join(directory, name), teardown: t.teardown.bind(t) })
  const [one, two] = [await startServer(at('one')), await startServer(at('two'))]
  await furnish(one)
  const file = await filesOf(one).exported()
  const text = JSON.stringify(file)
  for (const secret of [token, 'hidden-path', signing, secrets.KEY]) t.notOk(text.includes(secret), secret)
  t.notMatch(text, /(proj|cat|tag|lsrc|ntf)_/, 'no ids')
  t.match(file['projects'][0], { name: 'shop', categoryId: 'Web', tagIds: ['customer'] })
  t.same(file['projects'][1], { name: 'staging', deployPath: '/srv/staging', env: 'staging' }, 'without defaults')

  const there = filesOf(two)
  there.write(file)
  const masked = await there.apply('--yes')
  t.match(masked, { code: 1, stdout: '', stderr: /svc\.server\.json", line \d+: "settings\.webhook_secret" is masked/ })
  there.write(withVariables(file))
  t.match(await there.apply('--yes'), {
    code: 1,
    stderr: /line 4: .*needs the environment variable SIGNING: it is not set/
  })
  t.match(await there.apply('--yes', { ...secrets, SIGNING: '' }), { code: 1, stderr: /SIGNING: it is empty/ })
  t.same((await two.client.get('/api/projects')).body, [], 'nothing was changed')

  const trial = await there.apply('--dry-run', secrets)
  t.match(trial, {
    code: 0,
    stdout: /^create project "shop"\n {2}description: The shop\n {2}deployPath: \/srv\/shop\n/m
  })
  t.match(trial.stdout, /^change settings\n(?: {2}.*\n)* {2}keep_archives: 10 → 7$/m)
  t.notMatch(trial.stdout, new RegExp(`${token}|hidden-path|${signing}|${secrets.KEY}`))
  t.same((await two.client.get('/api/projects')).body, [], 'a dry run changes nothing')

  const applied = await there.apply('--yes', secrets)
  t.match(applied, { code: 0, stderr: '' })
  t.match(applied.stdout, /\nMade 11 changes\n$/)
  t.same(await there.exported(), file)
  const projects = (await two.client.get('/api/projects')).body as Array<{ id: string; name: string; policy: any }>
  const id = (name: string) => projects.find(each => each.name === name)?.id
  const shop = projects.find(each => each.name === 'shop')
  t.equal(shop?.policy.promoteFrom.projectId, id('staging'))
  t.match(shop?.policy.gate.after[1].log, /^lsrc_/)
  t.equal((await two.client.get('/api/settings')).body.webhook_secret, signing)

  const again = await there.apply('--yes', secrets)
  t.match(again, {
    code: 0,
    stdout: /^Nothing to change\nLeft alone: \d+ records/,
    stderr: /Not compared.*variables\.API_KEY/
  })
  const audit = (await two.client.get('/api/audit?limit=1')).body.items
  await there.apply('--yes', secrets)
  t.same((await two.client.get('/api/audit?limit=1')).body.items, audit, 'nothing was written')
  there.write(await there.exported())
  t.match(
    await there.apply('--yes'),
    { code: 0, stdout: /^Nothing to change\n/, stderr: '' },
    'masked secrets are kept'
  )
  const turned = await there.exported()
  turned['projects'][0].logSources.reverse()
  there.write(turned)
  t.match((await there.apply('--yes')).stdout, /change log source "shop: \/var\/log\/web\.log"\n {2}sortOrder: 1 → 0\n/)
  t.same(await there.exported(), turned, 'the log sources have the order of the file')
  t.match(await there.apply('--yes'), { code: 0, stdout: /^Nothing to change\n/ })
  there.write(withVariables(file))
  t.match(await there.apply('--yes --secrets', { ...secrets, SIGNING: 'another-secret-0123456789' }), { code: 0 })
  t.equal((await two.client.get('/api/settings')).body.webhook_secret, 'another-secret-0123456789')
})

t.test('changes are shown as the audit log shows them, and what is not named stays', async t => {
  const stage = await startServer(t)
  await furnish(stage)
  const there = filesOf(stage)
  there.write({
    settings: { keep_archives: '9' },
    tags: [{ name: 'CUSTOMER', color: 'pink' }],
    projects: [
      {
        name: 'shop',
        deployPath: '/srv/new-shop/',
        policy: { drift: 'warn' },
        variables: { NODE_ENV: 'test', NEW: 'x' }
      },
      { name: 'stage', deployPath: '/srv/staging' }
    ],
    notificationTargets: [{ name: 'team', url: 'https://hooks.slack.com/…', events: ['deploy_success'] }]
  })
  const { code, stdout } = await there.apply('--yes')
  t.equal(code, 0)
  t.equal(
    stdout,
    `change settings
  keep_archives: 7 → 9
change tag "CUSTOMER"
  name: customer → CUSTOMER
  color: green → pink
change project "shop"
  deployPath: /srv/shop → /srv/new-shop
  policy.drift: refuse → warn
change project "staging"
  name: staging → stage
change variable "shop: NODE_ENV"
  value: production → test
create variable "shop: NEW"
  value: x
change notification target "team"
  events: deploy_failure → deploy_success
Made 7 changes
`
  )
  const audit = (await stage.client.get('/api/audit?action=project.update&limit=2')).body.items
  t.match(audit[1].detail, 'shop\ndeployPath: /srv/shop → /srv/new-shop\npolicy.drift: refuse → warn')
  t.match(await there.apply('--yes'), { code: 0, stdout: /^Nothing to change\n/ })
  const file = await there.exported()
  t.match(file['projects'][0].policy, { gate: {}, promoteFrom: { projectId: 'stage', soakMinutes: 5 } })
  t.match(file['settings'], { webhook_secret: '***' })
})

t.test('--prune deletes and resets what the file does not name, but no project with deployments', async t => {
  const stage = await startServer(t)
  await furnish(stage)
  const there = filesOf(stage)
  const shop = { name: 'shop', deployPath: '/srv/shop', logSources: [{ filePath: '/var/log/web.log' }] }
  there.write({ settings: {}, categories: [], tags: [], projects: [shop], notificationTargets: [] })
  const trial = JSON.parse((await there.apply('--prune --dry-run --json')).stdout)
  t.same(
    trial.changes
      .filter(({ action }: { action: string }) => action === 'delete')
      .map((each: any) => `${each.kind} ${each.name}`),
    [
      'log source shop: /var/log/shop.log',
      'variable shop: API_KEY',
      'variable shop: NODE_ENV',
      'notification target team',
      'notification target signed',
      'project staging',
      'category Web',
      'tag customer'
    ]
  )
  t.match(trial, { applied: false, changes: [{ kind: 'settings', fields: [{ field: 'webhook_secret' }, {}, {}] }] })
  t.match(await there.apply('--prune --yes'), { code: 0 })
  const file = await there.exported()
  t.same(file, {
    format: 'svc-server-1',
    settings: {},
    categories: [],
    tags: [],
    projects: [{ name: 'shop', deployPath: '/srv/shop', logSources: [{ filePath: '/var/log/web.log' }] }],
    notificationTargets: []
  })

  const site = await stage.createProject('site')
  writeFileSync(join(stage.sites, 'index.html'), 'one')
  const push = `push --project ${site.id} --out . --ignore *.json --witness off`
  t.match(await there.run(push, { SVC_DEPLOY_TOKEN: site.token }), { code: 0 })
  const refused = await there.apply('--prune --yes')
  t.match(refused, { code: 1, stdout: '', stderr: /Cannot prune the project "site": it has deployments/ })
})

t.test('what is not understood is refused with its line, before the first change', async t => {
  const stage = await startServer(t)
  await stage.createProject('other', { deployPath: '/srv/other' })
  const there = filesOf(stage)
  const wrong: Array<[file: object | string, says: RegExp]> = [
    ['{\n  "a": 1,\n', /unexpected end of file in line 3/],
    ['{"format": "svc-server-2"}', /the format "svc-server-2" of a newer svc/],
    ['{}', /"format" must be "svc-server-1".*svc settings export/],
    [
      '{\n"format": "svc-server-1",\n"settings": {\n"keep_undo": "1",\n"keep_undo": "2"}}',
      /the key "keep_undo" comes twice in one object, in line 5/
    ],
    [{ projekts: [] }, /line 3: "projekts" is unknown: expected settings, categories/],
    [{ settings: { keep_archive: '1' } }, /line 4: .*keep_archive.*Did you mean "keep_archives"/],
    [{ settings: { keep_archives: '7', audit_days: 'many' } }, /line 5: "audit_days" cannot be set/],
    [{ settings: { audit_days: 7 } }, /line 4: .*a number/],
    [{ projects: [{ name: 'a' }] }, /line 4: "projects\[0\]\.deployPath" is missing/],
    [
      { projects: [{ name: 'a', deployPath: '/a', policy: { drfit: 'off' } }] },
      /line 8: "projects\[0\]\.policy\.drfit" is unknown/
    ],
    [{ projects: [{ name: 'a', deployPath: '/a', token: 'x' }] }, /line 7: .*token" is unknown/],
    [
      {
        projects: [
          { name: 'a', deployPath: '/a' },
          { name: 'A', deployPath: '/b' }
        ]
      },
      /line 8: "A" is in the file twice/
    ],
    [
      { projects: [{ name: 'a', deployPath: '/srv/other/x' }] },
      /line 6: Cannot deploy to "\/srv\/other\/x": the project "other"/
    ],
    [{ projects: [{ name: 'a', deployPath: '/a', tagIds: ['no'] }] }, /line 8: .*"no": there is no such record/],
    [
      { projects: [{ name: 'a', deployPath: '/a', policy: { promoteFrom: { projectId: 'no' } } }] },
      /line 9: .*no such record/
    ],
    [
      { projects: [{ name: 'a', deployPath: '/a', policy: { gate: { after: [{ log: '/x', none: 'E', for: 1 }] } } }] },
      /line 11: .*must be the path of a log source/
    ],
    [
      { projects: [{ name: 'a', deployPath: '/a', variables: { 'A B': '' } }] },
      /line 8: .*cannot be the name of a variable/
    ],
    [{ projects: [{ name: 'a', deployPath: '/a', variables: { A: { secret: '***' } } }] }, /line 9: .*is masked/],
    [{ notificationTargets: [{ name: 'n', url: 'https://x/…' }] }, /line 6: .*url" is masked/],
    [{ notificationTargets: [{ name: 'n', url: 'https://x/', projectIds: ['no'] }] }, /line 8: .*no such project/]
  ]
  const before = JSON.stringify(await there.exported())
  for (const [file, says] of wrong) {
    there.write(file)
    const { code, stdout, stderr } = await there.apply('--yes')
    t.match({ code, stdout }, { code: 1, stdout: '' }, String(says))
    t.match(stderr, says)
  }
  t.equal(JSON.stringify(await there.exported()), before)
  writeFileSync(there.path, 'PK\u0003\u0004')
  t.match(await there.apply('--yes'), { code: 1, stderr: /Cannot read the bundle/ })
  there.write({})
  t.match(await there.apply('--yes --project x'), { code: 2, stderr: /--project is for a bundle/ })
  t.match(await there.apply('--yes --set-env A=1'), { code: 2, stderr: /--set-env is for a bundle/ })
  t.match(await there.apply('missing.json --yes'), { code: 1, stderr: /missing\.json/ })
  there.write({ settings: { keep_archives: '8' } })
  t.match(await there.apply(''), { code: 1, stderr: /no terminal to ask on: use --yes/ })
})

/** A proxy in front of a stage, which makes a change before it passes the request that matches for the nth time. */
async function proxyOf(
  t: Tap,
  stage: Stage,
  { at, nth, change }: { at: RegExp; nth: number; change: () => Promise<unknown> }
) {
  let count = 0
  const proxy = createServer(async (incoming, answer) => {
    if (at.test(`${incoming.method} ${incoming.url}`) && ++count === nth) await change()
    const { method, headers } = incoming
    const passed = request(new URL(incoming.url as string, stage.url), { method, headers }, response => {
      answer.writeHead(response.statusCode as number, response.headers)
      response.pipe(answer)
    })
    incoming.pipe(passed)
  })
  return await urlOf(t, proxy)
}

t.test('what changed since the plan was made is not overwritten', async t => {
  const stage = await startServer(t)
  await furnish(stage)
  const there = filesOf(stage)
  const [shop] = (await stage.client.get('/api/projects')).body.filter(({ name }: { name: string }) => name === 'shop')
  const [source] = (await stage.client.get(`/api/projects/${shop.id}/log-sources`)).body.items
  let edits = 0
  const rename = () => stage.client.put(`/api/projects/${shop.id}`, { description: `edit ${edits++}` })
  const relabel = () => stage.client.patch(`/api/log-sources/${source.id}`, { label: 'by somebody else' })
  const setting = () => stage.client.put('/api/settings', { audit_days: '99' })
  const variable = () => stage.client.patch(`/api/projects/${shop.id}/variables`, { unset: ['NODE_ENV'] })
  const cases: Array<[at: RegExp, nth: number, change: () => Promise<unknown>, says: RegExp]> = [
    [/^GET \/api\/settings/, 2, rename, /The server has changed since the plan was made/],
    [/^PUT \/api\/settings/, 1, setting, /Cannot change settings: A setting has changed.*Nothing was changed/],
    [/^PUT \/api\/projects/, 1, rename, /Cannot change project "shop": The project has changed.*1 of 4 changes/],
    [/^GET \/api\/projects\/\w+\/log-sources/, 1, relabel, /Cannot change log source.* has changed since.*2 of 4/],
    [/^GET \/api\/projects\/\w+\/variables/, 3, variable, /Cannot change variable.* has changed since.*3 of 4/]
  ]
  for (const [index, [at, nth, change, says]] of cases.entries()) {
    const logSources = [{ filePath: '/var/log/shop.log', label: `label ${index}` }]
    const project = {
      name: 'shop',
      deployPath: '/srv/shop',
      env: `env${index}`,
      logSources,
      variables: { NODE_ENV: `${index}` }
    }
    there.write({ settings: { keep_archives: `${20 + index}` }, projects: [project] })
    const SVC_SERVER_URL = await proxyOf(t, stage, { at, nth, change })
    const { code, stderr } = await there.apply('--yes', { SVC_SERVER_URL })
    t.match({ code, stderr }, { code: 1, stderr: says }, String(says))
  }
  t.equal((await stage.client.get('/api/settings')).body.audit_days, '99')
  t.equal((await stage.client.get('/api/settings')).body.keep_archives, '24')
})

t.test('on a terminal the plan is shown before the question', { skip: noTerminal }, async t => {
  const stage = await startServer(t)
  const there = filesOf(stage)
  const env = { SVC_SERVER_URL: stage.url, SVC_TOKEN: adminToken }
  there.write({ settings: { keep_archives: '8' } })
  const ask = (answer: string) =>
    svcOnTerminal(['apply'], [{ see: 'Make 1 change? [y/N]', type: answer }], { cwd: stage.sites, env })
  t.match(await ask('n\r'), { code: 1, text: /change settings[^]*keep_archives: 10 → 8[^]*Nothing was changed/ })
  t.match(await ask('y\r'), { code: 0, text: /Made 1 change/ })
  t.match(await stage.client.get('/api/settings'), { body: { keep_archives: '8' } })
})

t.test('only an admin can apply or export; a refused change says how many were made', async t => {
  const stage = await startServer(t)
  const there = filesOf(stage)
  for (const role of ['viewer', 'deployer', 'operator']) {
    const { token } = (await stage.client.post('/api/tokens', { name: role, role })).body
    const other = filesOf(stage, token)
    other.write({ projects: [{ name: 'shop', deployPath: '/srv/shop' }] })
    t.match(await other.apply('--yes'), { code: 1, stdout: '', stderr: /admin/ }, role)
    t.match(await other.run('settings export'), { code: 1, stdout: '', stderr: /admin/ }, role)
  }
  const projects = [
    { name: 'one', deployPath: '/srv/one' },
    { name: 'two', deployPath: '/proc/two' },
    { name: 'three', deployPath: '/srv/three' }
  ]
  there.write({ projects })
  const { code, stderr } = await there.apply('--yes')
  t.equal(code, 1)
  t.match(
    stderr,
    /Cannot create project "two": deployPath is invalid.*1 of 3 changes were made\. Run the command again/
  )
  there.write({ projects: projects.with(1, { name: 'two', deployPath: '/srv/two' }) })
  t.match(await there.apply('--yes'), {
    code: 0,
    stdout: /Left alone: 1 record that is as the file says\nMade 2 changes/
  })
})

t.test('a project on nodes keeps its nodes, and a hundred projects take seconds', async t => {
  const { stage, shop } = await startFleet(t, ['web-1'])
  const there = filesOf(stage, stage.server.adminToken.current())
  const file = await there.exported()
  t.match(file['projects'], [{ name: 'shop', placements: [{ node: 'web-1' }] }])
  there.write({ ...file, projects: [{ ...file['projects'][0], policy: { drift: 'refuse' } }] })
  t.match(await there.apply('--prune --yes'), { code: 0, stdout: /policy\.drift: warn → refuse/ })
  const { placements } = (await stage.client.get(`/api/projects/${shop.id}/placements`)).body
  t.match(placements, [{ nodeName: 'web-1' }])
  const placed = async () => (await stage.client.get(`/api/projects/${shop.id}/placements`)).body.placements
  there.write({ ...file, projects: [{ ...file['projects'][0], placements: [] }] })
  t.match(await there.apply('--prune --yes'), { code: 0, stdout: /^delete placement "shop: web-1"$/m })
  t.same(await placed(), [])
  const wiki = { name: 'wiki', deployPath: '/srv/wiki', placements: [{ node: 'web-1', deployPath: '/srv/there' }] }
  there.write({ projects: [{ ...file['projects'][0], placements: [{ node: 'web-9' }] }, wiki] })
  t.match(await there.apply('--yes'), { code: 1, stdout: '', stderr: /There is no node "web-9"/ })
  there.write({ projects: [...file['projects'], wiki] })
  t.match((await there.apply('--yes')).stdout, /create placement "wiki: web-1"\n {2}deployPath: \/srv\/there\n/)
  t.match(await there.apply('--yes'), { code: 0, stdout: /^Nothing to change\n/ })
  t.match(await placed(), [{ nodeName: 'web-1', deployPath: shop.deployPath }])
  t.match((await there.exported())['projects'][1], wiki)

  const projects = Array.from({ length: 100 }, (_, index) => ({
    name: `site ${index}`,
    deployPath: `/srv/sites/${index}`,
    logSources: [{ filePath: `/var/log/site-${index}.log` }],
    variables: { SITE: `${index}` }
  }))
  there.write({ projects })
  const startedAt = performance.now()
  t.match(await there.apply('--yes'), { code: 0, stdout: /Made 300 changes\n$/ })
  t.match(await there.apply('--yes'), { code: 0, stdout: /^Nothing to change\nLeft alone: 300 records/ })
  t.ok(performance.now() - startedAt < 60_000)
})

const target = {
  name: 'team',
  kind: 'slack',
  url: 'https://x.example/…',
  secret: '***',
  events: [],
  projectIds: [],
  enabled: true
}
const state = {
  settings: { keep_archives: '10', webhook_url: '' },
  settingsSeen: undefined,
  categories: [],
  tags: [{ id: 'tag_1', seen: '"1"', fields: { name: 'old', color: 'blue', sortOrder: 0 } }],
  projects: [],
  nodes: [],
  notificationTargets: [{ id: 'ntf_1', seen: '"1"', hasSecret: true, fields: target }]
} as unknown as ServerState

function plan(parts: object, options: { prune?: boolean; secrets?: boolean } = {}) {
  const read = readServerFile(JSON.stringify({ format: 'svc-server-1', ...parts }), { name: 'file', env: {} })
  const { tasks, ...rest } = planOf({ ...read, state, prune: false, secrets: false, ...options })
  return { ...rest, steps: tasks.map(({ action, kind, name, fields }) => ({ action, kind, name, fields })) }
}

t.test('only what differs is changed', async t => {
  t.same(plan({ settings: { keep_archives: '10' }, tags: [{ name: 'OLD', color: 'blue' }] }).steps, [
    { action: 'change', kind: 'tag', name: 'OLD', fields: [{ field: 'name', from: 'old', to: 'OLD' }] }
  ])
  t.same(plan({}, { prune: true }), { steps: [], leftAlone: 0, notCompared: [] }, 'absent parts are not pruned')
  t.match(plan({ tags: [] }, { prune: true }).steps, [{ action: 'delete', kind: 'tag', name: 'old' }])
})

t.test('a secret that the server hides is not compared', async t => {
  const given = { name: 'team', url: 'https://x.example/secret', secret: 'a-secret-0123456789' }
  const places = ['notificationTargets[0].url', 'notificationTargets[0].secret']
  t.match(plan({ notificationTargets: [given] }), { steps: [], leftAlone: 1, notCompared: places })
  const fields = [
    { field: 'url', to: 'changed' },
    { field: 'secret', to: 'changed' }
  ]
  t.match(plan({ notificationTargets: [given] }, { secrets: true }), {
    steps: [{ action: 'change', fields }],
    notCompared: []
  })
  const elsewhere = { ...given, url: 'https://y.example/' }
  t.match(plan({ notificationTargets: [elsewhere] }).steps, [
    { fields: [{ from: 'https://x.example/…', to: 'https://y.example/…' }] }
  ])
  const settings = { metrics_token: 'a-token-0123456789' }
  t.match(plan({ settings }), { steps: [], notCompared: ['settings.metrics_token'] })
  t.match(plan({ settings }, { secrets: true }).steps, [{ fields: [{ field: 'metrics_token', to: '***' }] }])
  t.throws(() => plan({ settings: { webhook_url: 'https://x.example/…' } }), {
    message: /"settings.webhook_url" is masked/
  })
})
