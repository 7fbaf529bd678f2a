import t from 'tap'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { startServeProcess } from '../../support/serve-process.js'
import { apiSays } from '../../support/sentences/api.js'
import { matching } from '../../support/sentences/matching.js'
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
    t.match(
      stdout,
      /DEPLOYMENT +STATUS +MESSAGE +COMMIT +STARTED +TOOK +BY\n.* failed .*\n.* success +The first .* cli\n$/
    )
    t.notMatch((await svc(['status', project.id, '--limit', '1'], options)).stdout, 'The first')
  })

  await t.test('shows failures in the background', async t => {
    const other = await server.createProject({ name: 'behind', deployPath: join(cwd, 'behind') })
    const push = await server.upload(other, { 'a.txt': 'one' }, { postDeploy: 'exit 4', postDeployAsync: 'true' })
    await push.finished
    const end = /The post-deploy script in the background ended with exit code 4/
    while (!end.test((await svc(['logs', push.deployId], options)).stdout));
    while (!/in the background/.test((await svc(['status', other.id], options)).stdout));
    const { stdout } = await svc(['status', other.id], options)
    t.match(stdout, `behind (${other.id}): success, the post-deploy script failed in the background`)
    t.match(stdout, /success, failed in the background/)
    const { code, stderr } = await svc(['logs', '-f', push.deployId], options)
    t.equal(code, 0, 'the deployment is a success all the same')
    t.match(stderr, `${push.deployId}: the post-deploy script failed in the background`)
    t.match((await svc(['logs', push.deployId], options)).stderr, 'failed in the background')
    t.notMatch((await svc(['logs', good.deployId], options)).stderr, 'failed in the background')
  })

  await t.test('shows the origin of deployments and filters by it', async t => {
    const shop = await server.createProject({ name: 'origin', deployPath: join(cwd, 'origin') })
    const commit = '0123456789abcdef0123456789abcdef01234567'
    const provenance = JSON.stringify({
      commit,
      branch: 'feature/prices',
      subject: 'Lower the prices',
      ci: { system: 'Drone', run: '42', actor: 'ada' }
    })
    const pushed = await server.upload(shop, { 'a.txt': 'one' }, { provenance })
    await pushed.finished
    await (await server.upload(shop, { 'a.txt': 'two' }, { message: 'Another' })).finished
    t.match(
      (await svc(['status', shop.id], options)).stdout,
      /Lower the prices +0123456 feature\/prices .* Drone 42 \(ada\)\n$/
    )
    for (const filter of [
      ['--branch', 'feature/prices'],
      ['--commit', '01234567']
    ]) {
      const { stdout } = await svc(['status', shop.id, ...filter], options)
      t.match(stdout, 'Lower the prices')
      t.notMatch(stdout, 'Another')
    }
    t.match((await svc(['status', shop.id, '--branch', 'main'], options)).stdout, 'No deployment matches.')
    t.match(await svc(['status', shop.id, '--commit', 'xyz'], options), {
      code: 1,
      stderr: matching(apiSays.commitInvalid)
    })
    t.match(
      (await svc(['logs', pushed.deployId], options)).stderr,
      /: origin \(production\): Lower the prices \(0123456 feature\/prices\), Drone 42 \(ada\)\n$/
    )
    const { stdout } = await svc(
      ['rollback', shop.id, '--to', pushed.deployId, '--yes', '-m', 'Prices were wrong', '--json'],
      options
    )
    t.match(JSON.parse(stdout), {
      status: 'success',
      message: 'Prices were wrong',
      provenance: { commit },
      deployment: { rollbackOf: pushed.deployId, provenance: { commit } }
    })
    t.match(
      (await svc(['status', shop.id], options)).stdout,
      new RegExp(`Prices were wrong +0123456 feature/prices .* rollback of ${pushed.deployId}`)
    )
  })

  await t.test('--json prints {project, deployments} with the token masked', async t => {
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
