import t from 'tap'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { startServeProcess } from '../../support/serve-process.js'
import { svc } from '../../support/svc.js'

t.test('status', async t => {
  const cwd = t.testdir({})
  const server = await startServeProcess(t, cwd)
  const project = await server.createProject({ name: 'shop', deployPath: join(cwd, 'www') })
  const env = { SVC_SERVER_URL: server.url, SVC_TOKEN: server.adminToken }
  const options = { cwd, env }

  t.match(await svc(['status', project.id], options), { code: 0, stdout: /Nothing has been deployed yet/ })

  const good = await server.upload(project, { 'a.txt': 'one' }, { message: 'The first' })
  await good.finished
  const bad = await server.upload(project, { 'a.txt': 'two' }, { postDeploy: 'exit 3' })
  await bad.finished

  await t.test('shows the project and its last deployments, newest first', async t => {
    const { code, stdout } = await svc(['status', project.id], options)
    t.equal(code, 0)
    t.match(stdout, `shop (${project.id}): failed`)
    t.match(stdout, /DEPLOYMENT +STATUS +STARTED +TOOK +BY +MESSAGE\n.* failed .*\n.* success .* The first\n$/)
    t.notMatch((await svc(['status', project.id, '--limit', '1'], options)).stdout, 'The first')
  })

  await t.test('--json is {project, deployments}, the token masked', async t => {
    const { stdout } = await svc(['status', project.id, '--json'], options)
    t.match(JSON.parse(stdout), {
      project: { id: project.id, token: /^\*\*\*\*/ },
      deployments: [{ id: bad.deployId }, { id: good.deployId }]
    })
  })

  await t.test('takes the project from svc.config.json', async t => {
    const here = t.testdir({ 'svc.config.json': JSON.stringify({ projectId: project.id }) })
    t.match(await svc(['status'], { cwd: here, env }), { code: 0, stdout: /^shop / })
    writeFileSync(join(here, 'svc.config.live.json'), JSON.stringify({ projectId: 'proj_unknown' }))
    t.match(await svc(['status', '-e', 'live'], { cwd: here, env }), { code: 1, stderr: /Project not found/ })
  })
})
