import t from 'tap'
import { generateKeyPairSync } from 'node:crypto'
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { commands } from '../../lib/cli/command-table.js'
import { publicKeyOf } from '../../lib/core/proof/keys.js'
import { writeTestBundle } from '../support/bundles.js'
import { startFleet } from '../support/fleet-on-server.js'
import { nameAsBefore } from '../support/same-name.js'
import { adminToken, startServer } from '../support/server.js'
import { bareEnvironment, programHere } from '../support/svc.js'

/** Runs a command line in this process. */
async function here(words: string[], cwd: string, env: Record<string, string>) {
  let text = ''
  const program = programHere({ cwd, env: bareEnvironment(cwd, env), hear: (_, said) => void (text += said) })
  return { code: await program.run(words), text }
}

/** A command that takes a project, written as `@`, and what it prints about one that exists. */
interface Row {
  line: string
  says: RegExp
  /** Whether a stored deploy token permits it. */
  deploy?: true
  /** What it prints about an unknown project, if not that it is not found. */
  unknown?: RegExp
  /** Makes a project of its own, which the command removes. */
  own?: true
  /** Whether it does not ask the server about an id. */
  trustsIds?: true
}

const rows: Row[] = [
  { line: 'push --project @ --out site --witness off', says: /status success|deployed to proj_/, deploy: true },
  { line: 'plan --project @ --out site', says: /[Nn]othing would change|1 unchanged|Plan|plan/, deploy: true },
  { line: 'status @', says: /^shop \(proj_/, deploy: true },
  { line: 'logs DEP --project @', says: /shop/, deploy: true },
  { line: 'open @ --no-browser', says: /projects\/proj_/, deploy: true, trustsIds: true },
  { line: 'cancel DEP --project @', says: /not running|finished|already/, deploy: true },
  { line: 'promote @ @ --dry-run', says: /itself|archive of a deployment/i },
  { line: 'rollback @ --dry-run', says: /The archive of a deployment/ },
  { line: 'undo @ --dry-run', says: /^Exactly to/ },
  { line: 'confirm --project @', says: /No deployment of .+ waits/, deploy: true },
  { line: 'revert --project @', says: /No deployment of .+ waits/, deploy: true },
  { line: 'files @', says: /No file was edited/, deploy: true },
  { line: 'files @ --deep', says: /as deployed/, deploy: true },
  { line: 'files @ --repair --yes', says: /Nothing to repair: / },
  { line: 'rollback @ --undo --dry-run', says: /^Exactly to/ },
  { line: 'confirm --no --project @', says: /No deployment of .+ waits/, deploy: true },
  { line: 'drift @', says: /No file was edited/, deploy: true },
  { line: 'repair @ --yes', says: /Nothing to repair: / },
  { line: 'verify @', says: /as deployed/, deploy: true },
  { line: 'apply site.svcb --project @ --dry-run', says: /^Plan for shop/, deploy: true },
  { line: 'projects show @', says: /deployPath/ },
  { line: 'projects set @ --description word', says: /Changed description of shop/ },
  { line: 'projects token @', says: /^[\w-]{43}\n$/ },
  { line: 'projects pm2-logs @', says: /PM2/ },
  { line: 'projects delete @ --yes', says: /^Deleted own/, own: true },
  { line: 'lock @ --reason word --renew', says: /Project shop is locked by/, deploy: true },
  { line: 'unlock @', says: /Unlocked project shop|Lock not found: "proj_/, deploy: true },
  { line: 'maintenance on @', says: /[Mm]aintenance (is on|since)/, deploy: true },
  { line: 'maintenance status @', says: /Maintenance is o/, deploy: true },
  { line: 'maintenance off @', says: /Maintenance is off/, deploy: true },
  { line: 'env set KEY=value --project @', says: /Set KEY/ },
  { line: 'env list --project @', says: /KEY/ },
  { line: 'env import vars.env --project @', says: /Set 1 variable/ },
  { line: 'env unset OTHER --project @', says: /Removed OTHER|not set/ },
  { line: 'fleet nodes --project @', says: /No node matches/ },
  { line: 'fleet place @', says: /not placed on nodes/ },
  { line: 'fleet unplace @ --all', says: /not placed on nodes/ },
  { line: 'approve --project @ --yes', says: /No deployment of .* waits for an approval/, deploy: true },
  { line: 'reject --project @ --yes', says: /No deployment of .* waits for an approval/, deploy: true },
  { line: 'rollout list @', says: /There is no rollout/, deploy: true },
  { line: 'rollout status --project @', says: /There is no rollout of/, deploy: true },
  { line: 'rollout halt --project @', says: /There is no rollout of/, deploy: true },
  { line: 'rollout resume --project @', says: /There is no rollout of/, deploy: true },
  { line: 'rollout revert --project @', says: /There is no rollout of/, deploy: true },
  { line: 'rollout approve --project @', says: /There is no rollout of/, deploy: true },
  { line: 'tail @', says: /has no log sources/, unknown: /No log source and no project is called/ },
  { line: 'logs sources list --project @', says: /no log sources/ },
  { line: 'logs sources add /absent/NEW --project @', says: /^Added new\d+: |not found|not allowed/ },
  { line: 'logs sources remove other.log --project @', says: /Log source not found: "other.log"/ },
  { line: 'notify add NEW --url http://127.0.0.1:9/ --project @', says: /^Added "new\d+" \(generic, / },
  { line: 'token create NEW --role viewer --project @', says: /viewer of shop/ },
  { line: 'receipt export --project @ --out NEW.jsonl', says: /Exported \d receipts/ },
  { line: 'export --projects @ --out NEW.zip', says: /\.zip/ },
  { line: 'init --project @ --force', says: /Stored the token for/ },
  { line: 'login --project @ --token TOKEN', says: /Logged in/ }
]

/** Commands that ask the server of this machine, or that have their own rows above. */
const onThisMachine = ['admin reset-second-factor', 'tail']

/** Commands whose project is tested with their other rooms. */
const elsewhere = ['audit list', 'bundle', 'keys trust']

t.test('every command that takes a project takes its name or its id, and refuses an unknown one', async t => {
  const { stage, env, shop } = await startFleet(t)
  const cwd = stage.sites
  mkdirSync(join(cwd, 'site'))
  writeFileSync(join(cwd, 'site/index.html'), 'one')
  writeFileSync(join(cwd, 'vars.env'), 'OTHER=1\n')
  writeTestBundle(join(cwd, 'site.svcb'))
  const { token } = (await stage.client.post('/api/tokens', { name: 'ana', role: 'admin' })).body
  const ofServer = { ...env, SVC_HOME: stage.home.directory, SVC_TOKEN: token }
  const loggedIn = { SVC_SERVER_URL: stage.url, SVC_HOME: join(cwd, 'logged-in') }
  const pushed = await here(['push', '--project', shop.id, '--out', 'site', '--witness', 'off'], cwd, ofServer)
  const deployId = /dep_\w+/.exec(pushed.text)?.[0] as string
  t.match(await here(['login', '--token', shop.token], cwd, loggedIn), { code: 0 })

  let made = 0
  const wordsOf = (line: string, word: string): string[] =>
    line
      .split(' ')
      .map(each => each.replace('@', word).replace('DEP', deployId).replace('NEW', `new${made++}`))
      .map(each => (each === 'TOKEN' ? shop.token : each))

  await here(['push', '--project', shop.id, '--out', 'site', '--witness', 'off'], cwd, ofServer)
  for (const { line, says, deploy, unknown, own, trustsIds } of rows) {
    const nothing = unknown ?? /Project not found: "(nothing|proj_nothing)"/
    for (const kind of ['name', 'id'] as const) {
      const project = own ? await stage.createProject(`own${made++}`) : shop
      const known = await here(wordsOf(line, project[kind]), cwd, ofServer)
      t.match(known.text, says, `${line} by ${kind}`)
      if (kind === 'id' && trustsIds) continue
      const other = await here(wordsOf(line, kind === 'id' ? 'proj_nothing' : 'nothing'), cwd, ofServer)
      t.equal(other.code, 1, `${line} by unknown ${kind}`)
      t.match(other.text, nothing, `${line} by unknown ${kind}`)
    }
    if (!deploy) continue
    const known = await here(wordsOf(line, shop.name), cwd, loggedIn)
    t.match(known.text, says, `${line} by name, with a stored deploy token`)
    t.equal((await here(wordsOf(line, 'nothing'), cwd, loggedIn)).code, 1, `${line} with another name`)
  }
})

t.test('the commands above are all that take a project', async t => {
  const takes: string[] = []
  for (const { name, load, family } of commands) {
    if (family === null) continue
    const { operands, options } = await load()
    const all = Object.entries({ ...operands, ...options })
    if (all.some(([key, { complete }]) => /^projects?(Id)?$/.test(key) || complete === 'projects')) takes.push(name)
  }
  takes.sort((one, other) => other.length - one.length)
  const tested = rows.map(({ line }) => takes.find(name => `${line} `.startsWith(`${name} `)))
  const missing = takes.filter(name => ![...tested, ...elsewhere].includes(name))
  t.same(missing, [])
})

t.test('a name that several projects have is refused with their ids', async t => {
  const stage = await startServer(t)
  const shop = await stage.createProject('shop')
  const other = await stage.createProject('other')
  await nameAsBefore(stage, other.id, 'shop')
  const env = { SVC_SERVER_URL: stage.url, SVC_TOKEN: adminToken }
  const { code, text } = await here(['status', 'shop'], stage.sites, env)
  t.equal(code, 2)
  t.match(text, /Several projects have the name "shop"/)
  for (const { id } of [shop, other]) t.match(text, id)
  t.match(await here(['status', other.id], stage.sites, env), { code: 0 })
  t.match((await here(['list'], stage.sites, env)).text, /"shop" is the name of .*svc projects set <id> --name/)
  t.match(await here(['projects', 'set', other.id, '--name', 'wiki'], stage.sites, env), { code: 0 })
  t.notMatch((await here(['list'], stage.sites, env)).text, /is the name of/)
})

t.test('nodes and named tokens are named by name or id', async t => {
  const { stage, env } = await startFleet(t, ['web-1', 'web-2'])
  const cwd = stage.sites
  const idOf = async (path: string, name: string): Promise<string> => {
    const { body } = await stage.client.get(path)
    const all = (body.nodes ?? body.items) as Array<{ id: string; name: string }>
    return all.find(each => each.name === name)?.id as string
  }
  const nodes = [
    'fleet node @',
    'fleet set @ --label a=b',
    'fleet drain @',
    'fleet undrain @',
    'fleet unplace shop --from @',
    'fleet place shop --on @'
  ]
  for (const line of nodes) {
    for (const word of ['web-1', await idOf('/api/nodes', 'web-2')])
      t.match(await here(line.replace('@', word).split(' '), cwd, env), { code: 0 }, `${line}: ${word}`)
    const unknown = await here(line.replace('@', 'nothing').split(' '), cwd, env)
    t.match(unknown, { code: 1, text: /Node not found: "nothing"/ }, line)
  }
  for (const word of ['web-1', await idOf('/api/nodes', 'web-2')])
    t.match(await here(['fleet', 'forget', word, '--yes'], cwd, env), { code: 0 }, word)

  for (const line of ['token rotate @', 'token revoke @ --yes']) {
    for (const name of ['ana', 'Ben']) {
      if (line.includes('rotate')) await stage.client.post('/api/tokens', { name, role: 'viewer' })
      const word = name === 'ana' ? name : await idOf('/api/tokens', name)
      t.match(await here(line.replace('@', word).split(' '), cwd, env), { code: 0 }, `${line}: ${word}`)
    }
    const unknown = await here(line.replace('@', 'nothing').split(' '), cwd, env)
    t.match(unknown, { code: 1, text: /Token not found: "nothing"/ }, line)
  }
})

/** A command that takes another record, written as `@`, and what it says about one that does not exist. */
const others: ReadonlyArray<[line: string, says: RegExp]> = [
  ['logs @', /Deployment not found: "nothing"/],
  ['promote shop wiki --release @ --dry-run', /Deployment not found: "nothing"/],
  ['rollback shop --to @ --dry-run', /Deployment not found: "nothing"/],
  ['confirm @', /Deployment not found: "nothing"/],
  ['approve @ --yes', /Deployment not found: "nothing"/],
  ['reject @ --yes', /Deployment not found: "nothing"/],
  ['cancel @', /Deployment not found: "nothing"/],
  ['open @ --no-browser', /not found: "nothing"/],
  ['receipt show @', /Deployment not found: "nothing"/],
  ['archive delete @ --yes', /Deployment not found: "nothing"/],
  ['target forget @ --yes', /not found: "nothing"/],
  ['revert @', /Deployment not found: "nothing"/],
  ['rollout status @', /Rollout not found: "nothing"/],
  ['rollout halt @', /Rollout not found: "nothing"/],
  ['rollout resume @', /Rollout not found: "nothing"/],
  ['rollout revert @', /Rollout not found: "nothing"/],
  ['rollout approve @', /Rollout not found: "nothing"/],
  ['fleet node @', /Node not found: "nothing"/],
  ['fleet set @ --label a=b', /Node not found: "nothing"/],
  ['fleet place shop --on @', /Node not found: "nothing"/],
  ['fleet unplace shop --from @', /Node not found: "nothing"/],
  ['fleet drain @', /Node not found: "nothing"/],
  ['fleet undrain @', /Node not found: "nothing"/],
  ['fleet forget @ --yes', /Node not found: "nothing"/],
  ['token rotate @', /Token not found: "nothing"/],
  ['token revoke @ --yes', /Token not found: "nothing"/],
  ['notify test @', /Notification target not found: "nothing"/],
  ['notify remove @ --yes', /Notification target not found: "nothing"/],
  ['logs sources remove @', /Log source not found: "nothing"/],
  ['keys revoke @ --yes', /Key not found: "nothing"/]
]

t.test('commands say that a node, rollout, deployment, token, target or log source does not exist', async t => {
  const { stage, env } = await startFleet(t, ['web-1'])
  await stage.createProject('wiki')
  for (const [line, says] of others) {
    const { code, text } = await here(line.replace('@', 'nothing').split(' '), stage.sites, env)
    t.equal(code, 1, line)
    t.match(text, says, line)
  }
})

/** Commands with a word that nothing has, and what they say is near, or where the names are. */
const near: ReadonlyArray<[line: string, says: RegExp]> = [
  ['status shp', /Project not found: "shp"\. Did you mean "shop"\?/],
  ['push --project shpo --out .', /Project not found: "shpo"\. Did you mean "shop"\?/],
  ['rollback wkii --dry-run', /Project not found: "wkii"\. Did you mean "wiki"\?/],
  ['promote shp wiki --dry-run', /Did you mean "shop"\?/],
  ['audit list --project shp', /Project not found: "shp"\. Did you mean "shop"\?/],
  ['audit list --by anabel', /Token not found: "anabel"\. Did you mean "annabel"\?/],
  ['audit list --action deployment.uplod', /Did you mean "deployment.upload"\?/],
  ['export --projects shp --out x.zip', /Did you mean "shop"\?/],
  ['status nothing', /Project not found: "nothing"\. "svc list" shows ids and names/],
  ['status proj_nothing', /Project not found: "proj_nothing"\. "svc list" shows ids and names/],
  ['fleet node web1', /Node not found: "web1"\. Did you mean "web-1"\?/],
  ['fleet drain nothing', /Node not found: "nothing"\. "svc fleet nodes" shows ids and names/],
  ['fleet place shop --on web1', /Node not found: "web1"\. Did you mean "web-1"\?/],
  ['fleet enrollments --revoke nothing', /Enrollment not found: "nothing"\. "svc fleet enrollments" shows the ids/],
  ['token rotate anabel', /Token not found: "anabel"\. Did you mean "annabel"\?/],
  ['token revoke nothing --yes', /Token not found: "nothing"\. "svc token list" shows the names/],
  ['keys revoke relase --yes', /Key not found: "relase"\. Did you mean "release"\?/],
  ['keys revoke nothing --yes', /Key not found: "nothing"\. "svc keys list" shows names, fingerprints and ids/],
  ['notify test team-chatt', /Notification target not found: "team-chatt"\. Did you mean "team-chat"\?/],
  ['notify remove nothing --yes', /Notification target not found: "nothing"\. "svc notify list" shows the names/],
  ['logs sources remove acces.log', /Log source not found: "acces.log"\. Did you mean "access.log"\?/],
  ['logs sources remove nothing', /Log source not found: "nothing"\. "svc logs sources list" shows/],
  ['tail acces.log', /Did you mean "access.log"\?/],
  ['settings get keep_archive', /Unknown setting "keep_archive": did you mean "keep_archives"\?/],
  ['settings set keep_archive 3', /Unknown setting "keep_archive": did you mean "keep_archives"\?/],
  ['settings set keep_archives=3 nothing_like=1', /Unknown setting "nothing_like"\. "svc settings list" shows all/],
  ['env unset API_KY --project shop', /API_KY is not set\. Did you mean "API_KEY"\?/],
  ['config:get serverUr', /did you mean "serverUrl"\?/],
  ['config:set serverUr x', /did you mean "serverUrl"\?/],
  ['confirm shop', /Deployment not found: "shop"\. It is a project: "svc status shop" shows the ids/],
  ['logs Shop', /It is a project: "svc status shop" shows the ids/],
  ['rollout halt shop', /Rollout not found: "shop"\. It is a project: "svc rollout list shop" shows the ids/],
  ['target forget shop --yes', /Unfinished target not found: "shop"\. "svc doctor" shows the ids/]
]

t.test('the commands above are all that take one', async t => {
  const missing: string[] = []
  for (const { name, load, family } of commands) {
    if (family === null) continue
    const { operands, options } = await load()
    const ofRecords = Object.keys(operands).filter(key =>
      /^(token|target|source|node|key|rolloutId|deployId)$/.test(key)
    )
    const all = Object.entries({ ...operands, ...options })
    const completed = all.filter(([, { complete = '' }]) => ['nodes', 'rollouts', 'deployments'].includes(complete))
    if (ofRecords.length + completed.length === 0) continue
    if (![...others, ...near].some(([line]) => line.startsWith(`${name} `)) && !onThisMachine.includes(name))
      missing.push(name)
  }
  t.same(missing, [])
})

t.test('a word that nothing has is answered with the nearest name, or with where the names are', async t => {
  const { stage, env: asAdmin } = await startFleet(t, ['web-1'])
  const cwd = stage.sites
  await stage.createProject('wiki')
  // A named token, which can push.
  const { token } = (await stage.client.post('/api/tokens', { name: 'robot', role: 'admin' })).body as { token: string }
  const env = { ...asAdmin, SVC_HOME: stage.home.directory, SVC_TOKEN: token }
  const log = join(cwd, 'access.log')
  writeFileSync(log, '')
  const { publicKey } = generateKeyPairSync('ed25519')
  const made = [
    ['/api/tokens', { name: 'annabel', role: 'viewer' }],
    ['/api/signing-keys', { name: 'release', public: publicKeyOf(publicKey).text }]
  ] as const
  for (const [path, body] of made) t.match(await stage.client.post(path, body), { status: /20[01]/ }, path)
  for (const line of [
    'notify add team-chat --url http://127.0.0.1:9/',
    `logs sources add ${log} --project shop`,
    'env set API_KEY=x --project shop'
  ])
    t.match(await here(line.split(' '), cwd, env), { code: 0 }, line)
  for (const [line, says] of near) {
    const { code, text } = await here(line.split(' '), cwd, env)
    t.not(code, 0, line)
    t.match(text, says, line)
  }
  t.match(await stage.client.get('/api/settings'), { body: { keep_archives: /^(?!3$)/ } }, 'no setting has changed')
  const { items } = (await stage.client.get('/api/tokens')).body as { items: Array<{ id: string; name: string }> }
  const byId = await here(
    ['audit', 'list', '--by', items.find(({ name }) => name === 'annabel')?.id as string],
    cwd,
    env
  )
  t.match(byId, { code: 0, text: /No entries/ }, 'a token by its id')
})
