import t from 'tap'
import { startFleet } from '../../support/fleet-on-server.js'

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
