import t from 'tap'
import { existsSync, readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { startAgentProcess } from '../../support/agent-process.js'
import { startFakeHub } from '../../support/fake-hub.js'
import { svc } from '../../support/svc.js'

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
