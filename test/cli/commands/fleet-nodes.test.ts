import t from 'tap'
import { startFleet } from '../../support/fleet-on-server.js'

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
