import { join } from 'node:path'
import t from 'tap'
import { standInPm2 } from '../../support/pm2.js'
import { startServeProcess } from '../../support/serve-process.js'
import { svc } from '../../support/svc.js'

t.test('projects pm2-logs adds the log files of the PM2 application', async t => {
  const cwd = t.testdir({ 'shop.log': '' })
  const pm2 = standInPm2(t)
  pm2.install([{ name: 'shop', pm_id: 0, pm2_env: { pm_out_log_path: join(cwd, 'shop.log') } }])
  const server = await startServeProcess(t, cwd, [], pm2.env)
  const project = await server.createProject({ name: 'shop', deployPath: join(cwd, 'www') })
  const env = { SVC_SERVER_URL: server.url, SVC_TOKEN: server.adminToken }
  const run = (...words: string[]) => svc(['projects', 'pm2-logs', 'shop', ...words], { cwd, env })
  t.match(await run(), { code: 1, stdout: '', stderr: /not linked to a PM2 application/ })
  await server.changeProject(project.id, { pm2AppName: 'shop' })
  t.match(await run(), { code: 0, stdout: `shop.log  ${join(cwd, 'shop.log')}\n`, stderr: /Added 1 log source to/ })
  t.match(await run('--json'), { code: 0, stdout: /"items": \[\]/ })
})
