import { join } from 'node:path'
import t from 'tap'
import { startServeProcess } from '../../support/serve-process.js'
import { svc } from '../../support/svc.js'

t.test('cancel stops the script of a deployment, and the deployment fails', async t => {
  const cwd = t.testdir({})
  const server = await startServeProcess(t, cwd)
  const project = await server.createProject({ name: 'shop', deployPath: join(cwd, 'www') })
  await server.changeProject(project.id, { preDeployScript: 'sleep 300' })
  const { deployId, finished } = await server.upload(project, { 'index.html': 'one' })
  const env = { SVC_SERVER_URL: server.url, SVC_DEPLOY_TOKEN: project.token }
  const cancelled = await svc(['cancel', deployId, '--json'], { cwd, env })
  t.equal(cancelled.code, 0, cancelled.stderr)
  t.type(JSON.parse(cancelled.stdout), 'object')
  t.match((await finished).at(-1), { status: 'failed' })
  t.match(await svc(['cancel', deployId], { cwd, env }), { code: 1, stdout: '' }, 'it has finished')
  t.match(await svc(['cancel', 'dep_unknown'], { cwd, env }), { code: 1, stdout: '' })
  t.match(await svc(['cancel'], { cwd, env }), { code: 2, stdout: '' }, 'without an id')
})
