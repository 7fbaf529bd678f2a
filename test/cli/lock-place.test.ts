import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { startServeProcess } from '../support/serve-process.js'
import { svc } from '../support/svc.js'

t.test('a lock is of a named project, of the configured one, or of the whole server', async t => {
  const cwd = t.testdir({})
  const server = await startServeProcess(t, cwd)
  const shop = await server.createProject({ name: 'shop', deployPath: join(cwd, 'www') })
  const env = { SVC_SERVER_URL: server.url, SVC_TOKEN: server.adminToken }
  const lock = (...words: string[]) => svc(['lock', '--reason', 'a', ...words], { cwd, env })
  const place = async (...words: string[]) => JSON.parse((await lock('--json', '--renew', ...words)).stdout).projectId

  t.match(await lock(), { code: 1, stderr: /No svc.config.json in/ })
  t.match(await lock('nothing'), { code: 1, stderr: /"nothing"/ })
  t.match(await lock('shop', '--all'), { code: 2, stderr: /not both/ })
  t.equal(await place('shop'), shop.id)
  t.equal(await place(shop.id), shop.id)
  t.equal(await place('--all'), null)
  writeFileSync(join(cwd, 'svc.config.json'), JSON.stringify({ projectId: shop.id, serverUrl: server.url }))
  t.equal(await place(), shop.id)

  const withDeployToken = { cwd, env: { SVC_SERVER_URL: server.url, SVC_DEPLOY_TOKEN: shop.token } }
  t.match(await svc(['lock', '--all', '--reason', 'a'], withDeployToken), { code: 1, stderr: /admin token/ })
})
