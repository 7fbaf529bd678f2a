import t from 'tap'
import { readFileSync, statSync, existsSync } from 'node:fs'
import { join } from 'node:path'
import { FakeAgent } from '../../support/fake-agent.js'
import { startFleet } from '../../support/fleet-on-server.js'
import { adminToken, startServer } from '../../support/server.js'
import { svc } from '../../support/svc.js'
import { startAgentProcess } from '../../support/agent-process.js'
import { startFakeHub } from '../../support/fake-hub.js'

t.test('nodes are listed, shown, changed, drained and forgotten', async t => {
  const { run } = await startFleet(t, ['web-1', 'web-2'])
  const listed = await run('fleet nodes')
  t.match(listed, {
    code: 0,
    stdout: /^NODE +STATE .*\nweb-1 +connected, upgrade the agent +shop +2\.0\.0\nweb-2 +connected/
  })
  t.match(JSON.parse((await run('fleet nodes --json')).stdout), [{ name: 'web-1', isConnected: true }, {}])

  t.match(await run('fleet set web-1 --label zone=eu --label beta=1'), { code: 0, stdout: /"web-1": beta=1 zone=eu/ })
  t.match(await run('fleet set web-1 --name db-1 --label beta='), { code: 0, stdout: /"db-1": zone=eu/ })
  t.match(await run('fleet set db-1 --label beta'), { code: 2, stderr: /--label cannot be "beta"/ })
  t.match(await run('fleet set db-1'), { code: 2, stderr: /--name/ })
  t.match((await run('fleet nodes --label zone=eu')).stdout, /^NODE.*\ndb-1 .*zone=eu.*\n$/)
  t.match(await run('fleet nodes --label zone=us'), { code: 0, stdout: '', stderr: /No node matches/ })

  t.match(await run('fleet drain db-1'), { code: 0, stdout: /leave "db-1" out/ })
  const shown = await run('fleet node db-1')
  t.match(shown, {
    code: 0,
    stdout: /^db-1 \(node_\w+\): connected, drained, upgrade the agent\nzone=eu, svc 2\.0\.0, enrolled/
  })
  t.match(shown.stdout, /PROJECT +DIRECTORY +HAS\nshop .*nothing yet/)
  t.match(JSON.parse((await run('fleet undrain db-1 --json')).stdout), { name: 'db-1', isDrained: false })
  t.match(await run('fleet node web-9'), { code: 1, stderr: /Node not found: "web-9"/ })

  t.match(await run('fleet forget db-1'), { code: 1, stderr: /use --yes/ })
  t.match(await run('fleet forget db-1 --yes'), { code: 0, stdout: /"db-1" was removed/ })
  t.notMatch((await run('fleet nodes --project shop')).stdout, /db-1/)
})

t.test('a server without nodes says how to get one', async t => {
  const { run } = await startFleet(t)
  t.match(await run('fleet nodes'), { code: 0, stdout: '', stderr: /svc fleet enroll/ })
})

t.test('an operator drains, and may not forget', async t => {
  const { stage, run } = await startFleet(t, ['web-1'])
  const { token } = (await stage.client.post('/api/tokens', { name: 'ana', role: 'operator' })).body
  const env = { SVC_TOKEN: token }
  t.match(await run('fleet drain web-1', { env }), { code: 0 })
  t.match(await run('fleet forget web-1 --yes', { env }), { code: 1, stderr: /role "operator"/ })
})

t.test('prints the command for the machine, and nothing else on standard output', async t => {
  const { stage, run } = await startFleet(t)
  const { code, stdout, stderr } = await run('fleet enroll --name web-1 --label zone=eu --for 10m')
  t.equal(code, 0)
  const [, token = ''] = /^SVC_ENROLL_TOKEN=(svcnode_\S+) svc agent --hub \S+\n$/.exec(stdout) ?? []
  t.match(stdout, `--hub ${stage.url}\n`)
  t.match(stderr, /One machine may become a node until .* UTC/)
  t.match(stderr, `only this machine reaches ${stage.url}. For another machine, use --server`)
  t.match(await new FakeAgent(stage.url).enroll(token), { status: 200, json: { name: 'web-1' } })
  t.match((await stage.client.get('/api/nodes/web-1')).body, { node: { labels: { zone: 'eu' } } })
})

t.test('writes the token to a file that only its user reads', async t => {
  const { stage, run } = await startFleet(t)
  const ended = await run('fleet enroll --out node.token')
  t.match(ended, { code: 0, stdout: '', stderr: /--enroll - < node\.token/ })
  const file = join(stage.sites, 'node.token')
  t.equal(statSync(file).mode & 0o777, 0o600)
  t.match(readFileSync(file, 'utf8'), /^svcnode_\S+\n$/)
  t.match(await run('fleet enroll --out node.token --json'), { code: 2, stderr: /--out or --json/ })
})

t.test('tokens are listed and revoked', async t => {
  const { run } = await startFleet(t)
  t.match(await run('fleet enrollments'), { code: 0, stdout: '', stderr: /no valid enrollment token/ })
  const { enrollment, command } = JSON.parse((await run('fleet enroll --json')).stdout)
  t.match(command, /^SVC_ENROLL_TOKEN=svcnode_\S+ svc agent --hub \S+$/)
  t.match(await run('fleet enrollments'), { code: 0, stdout: new RegExp(`^ID.*\\n${enrollment.id} +its host name`) })
  t.match(await run(`fleet enrollments --revoke ${enrollment.id}`), { code: 0, stdout: /was revoked/ })
  t.match(await run(`fleet enrollments --revoke ${enrollment.id}`), { code: 1, stderr: /not found/ })
  t.equal((await run('fleet enrollments --json')).stdout.trim(), '[]')
  t.match(await run('fleet enroll --for soon'), { code: 2, stderr: /--for cannot be "soon"/ })
})

t.test('a project is placed by name and by label, and taken off', async t => {
  const { stage, shop, run } = await startFleet(t, ['web-1', 'web-2', 'web-3'])
  t.match(await run('fleet unplace shop --all'), { code: 0, stdout: /this server deploys it itself/ })
  t.match(await run('fleet place shop'), { code: 0, stdout: '', stderr: /not placed on nodes/ })

  const placed = await run('fleet place shop --on web-1,web-2 --path /srv/shop')
  t.match(placed, { code: 0, stdout: /^NODE.*\nweb-1 +\/srv\/shop +nothing yet.*\nweb-2/, stderr: /on 2 nodes/ })
  await run('fleet set web-3 --label zone=eu')
  t.match(await run('fleet place shop --label zone=eu'), { code: 0, stdout: new RegExp(`web-3 +${shop.deployPath}`) })
  t.equal((await stage.client.get(`/api/projects/${shop.id}/placements`)).body.placements.length, 3)

  t.match(await run('fleet unplace shop --from web-1 --from web-2'), { code: 0, stdout: /^NODE.*\nweb-3[^\n]*\n$/ })
  t.equal(JSON.parse((await run('fleet place shop --json')).stdout).length, 1)
})

t.test('wrong usage is refused before anything changes', async t => {
  const { run } = await startFleet(t, ['web-1'])
  t.match(await run('fleet place shop --path /srv'), { code: 2, stderr: /--path needs --on or --label/ })
  t.match(await run('fleet place shop --label zone=eu'), { code: 2, stderr: /No node has the label zone=eu/ })
  t.match(await run('fleet place shop --on web-9'), { code: 1, stderr: /Node not found/ })
  t.match(await run('fleet place blog'), { code: 1, stderr: /Project not found/ })
  t.match(await run('fleet unplace shop'), { code: 2, stderr: /--from/ })
  t.match(await run('fleet unplace shop --all --from web-1'), { code: 2, stderr: /not both/ })
})

t.test('the machine of the server needs neither address nor token, and learns the public address', async t => {
  const environment = { SVC_PUBLIC_URL: 'https://deploy.example.org' }
  const stage = await startServer(t, { environment })
  const here = { cwd: stage.sites, env: { SVC_HOME: stage.home.directory } }
  const enrolled = await svc(['fleet', 'enroll', '--name', 'web-1'], here)
  t.match(enrolled, {
    code: 0,
    stdout: /^SVC_ENROLL_TOKEN=svcnode_\S+ svc agent --hub https:\/\/deploy\.example\.org\n$/
  })
  t.notMatch(enrolled.stderr, /warning/)
  const again = await svc(['fleet', 'enroll', '--name', 'WEB-1'], here)
  t.match(again, { code: 1, stdout: '', stderr: /An enrollment with the name "WEB-1" is open: enr_\w+/ })
  const remote = { cwd: stage.sites, env: { SVC_SERVER_URL: stage.url, SVC_TOKEN: adminToken } }
  t.match(await svc(['fleet', 'enroll'], remote), { code: 0, stdout: /--hub https:\/\/deploy\.example\.org\n$/ })
})

t.test('an agent enrolls, takes a release, goes back, and starts again without a token', async t => {
  const cwd = t.testdir({ sites: {} })
  const hub = await startFakeHub(t, { base: '/base' })
  const site = join(cwd, 'sites', 'a')
  const agent = await startAgentProcess(t, cwd, ['--hub', hub.url, '--enroll', hub.token(), '--name', 'plant-a1'])
  await hub.connected()
  t.match(await (await fetch(`${agent.url}/`)).text(), /agent of a fleet/)
  const identity = join(agent.home, 'agent.json')
  t.match(JSON.parse(readFileSync(identity, 'utf8')), { hubs: [hub.url], nodeId: hub.nodeId(), name: 'plant-a1' })
  for (const path of [identity, join(agent.home, 'keys', 'agent.ed25519')]) t.equal(statSync(path).mode & 0o777, 0o600)

  const release = await hub.release('proj_a', { 'index.html': 'first' }, { deployPath: site })
  await hub.answer(hub.order(release, 'prepare'), 'prepared')
  t.notOk(existsSync(site), 'preparing changes nothing in the target')
  const swapped = await hub.answer(hub.order(release, 'swap'), 'good')
  t.match(swapped, { error: null, failedStep: null, output: /Deployment dep_/ })
  t.equal(readFileSync(join(site, 'index.html'), 'utf8'), 'first')
  const report = await hub.reported(({ placements }) => placements[0]?.liveDeployId === release.deployId)
  t.match(report.placements, [{ projectId: 'proj_a', isDrifted: false }])

  t.equal(await agent.stop(), 0)
  const again = await startAgentProcess(t, cwd)
  await again.says(/Connected to the hub/)
  await hub.answer(hub.order(release, 'revert'), 'reverted')
  t.notOk(existsSync(join(site, 'index.html')))
  await hub.reported(({ placements }) => placements[0]?.liveDeployId === null)
  t.equal(await again.stop(), 0)
})

t.test('an agent says what is missing for an enrollment, and what is wrong with it', async t => {
  const cwd = t.testdir({ 'no.pem': 'nothing' })
  const hub = await startFakeHub(t)
  const other = await startFakeHub(t)
  const cases: Array<[words: string[], code: number, says: RegExp]> = [
    [[], 2, /not a node yet. Use --hub/],
    [['--hub', hub.url], 2, /Use --enroll/],
    [['--hub', 'nowhere'], 2, /--hub cannot be "nowhere"/],
    [['--hub', 'http://192.0.2.1:5431', '--enroll', hub.token()], 2, /--allow-http/],
    [['--hub', 'http://127.0.0.1.example.com', '--enroll', hub.token()], 2, /--allow-http/],
    [['--hub', hub.url, '--enroll', 'svcnode_x'], 1, /The enrollment token is not complete/],
    [['--hub', hub.url, '--enroll', hub.token().replace(/^svcnode_[^_]+/, 'svcnode_wrong')], 1, /enrollment_invalid/],
    [['--hub', hub.url, '--label', 'zone', '--enroll', hub.token()], 2, /must be key=value/],
    [['--hub', hub.url, '--ca', 'no.pem', '--enroll', hub.token()], 2, /contains no certificate/],
    [['--hub', 'http://127.0.0.1:1', '--enroll', hub.token()], 1, /Cannot reach the hub/]
  ]
  const start = (words: string[]) => svc(['agent', ...words], { cwd, isRefused: true })
  for (const [words, code, says] of cases) t.match(await start(words), { code, stderr: says })
  const wrong = other.token().replace(/^svcnode_[^_]+/, '')
  const token = hub.token()
  const mixed = `${token.slice(0, token.lastIndexOf('_'))}${wrong}`
  t.match(await start(['--hub', hub.url, '--enroll', mixed]), { code: 1 })
})
