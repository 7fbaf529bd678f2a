import { writeFileSync } from 'node:fs'
import t from 'tap'
import { join } from 'node:path'
import { startServeProcess } from '../../support/serve-process.js'
import { svc } from '../../support/svc.js'

t.test('logs and cancel', async t => {
  const cwd = t.testdir({})
  const server = await startServeProcess(t, cwd)
  const project = await server.createProject({ name: 'shop', deployPath: join(cwd, 'www') })
  const env = { SVC_SERVER_URL: server.url, SVC_TOKEN: server.adminToken }
  const options = { cwd, env }

  const good = await server.upload(project, { 'a.txt': 'one' }, { message: 'The first', postDeploy: 'echo hello' })
  await good.finished
  const bad = await server.upload(project, { 'a.txt': 'two' }, { postDeploy: 'echo oh no; exit 3' })
  await bad.finished

  await t.test('logs prints the whole output', async t => {
    const { code, stdout, stderr } = await svc(['logs', good.deployId], options)
    t.equal(code, 0)
    t.match(stdout, /^hello$/m)
    t.ok(stdout.endsWith('\n'))
    t.equal(stderr, `${good.deployId}: shop (production): The first, cli\n`)
    t.match(
      (await svc(['logs', '--timestamps', good.deployId], options)).stdout,
      /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z hello$/m
    )
    t.match(JSON.parse((await svc(['logs', '--json', good.deployId], options)).stdout), {
      id: good.deployId,
      status: 'success'
    })
    t.match(await svc(['logs', 'dep_unknown'], options), {
      code: 1,
      stdout: '',
      stderr: /^error: Deployment not found/
    })
  })

  await t.test('logs -f ends with exit code 0 for success and 1 for a failure', async t => {
    t.match(await svc(['logs', '-f', good.deployId], options), { code: 0, stdout: /^hello$/m, stderr: /success in/ })
    t.match(await svc(['logs', '--follow', bad.deployId], options), {
      code: 1,
      stdout: /^oh no$/m,
      stderr: /failed in/
    })
    t.match(await svc(['logs', '-f', 'dep_unknown'], options), { code: 1, stderr: /^error: Deployment not found/ })
    const events = (await svc(['logs', '-f', '--json', good.deployId], options)).stdout
      .trim()
      .split('\n')
      .map(line => JSON.parse(line) as object)
    t.match(events.at(-1), { event: 'status', status: 'success' })
  })

  await t.test('logs -f follows a running deployment, and cancel stops it', async t => {
    const long = await server.upload(project, { 'a.txt': 'three' }, { postDeploy: 'echo begun; sleep 60' })
    let isCancelled = false
    const followed = await svc(['logs', '-f', long.deployId], {
      ...options,
      onOutput(text) {
        if (isCancelled || !text.includes('begun')) return
        isCancelled = true
        void svc(['cancel', long.deployId], options).then(ended =>
          t.match(ended, { code: 0, stdout: /Cancelled dep_/ })
        )
      }
    })
    t.match(followed, { code: 1, stderr: /failed in/ })
    await long.finished
    t.match(await svc(['cancel', long.deployId], options), { code: 1, stderr: /^error: / })
  })

  await t.test('Ctrl-C ends logs -f, and the deployment continues', async t => {
    const slow = await server.upload(
      project,
      { 'a.txt': 'four' },
      {
        postDeploy: 'echo begun; until [ -e go ]; do sleep 0.05; done'
      }
    )
    const { code } = await svc(['logs', '-f', slow.deployId], { ...options, interruptAt: /begun/ })
    t.equal(code, 130)
    writeFileSync(join(project.deployPath, 'go'), '')
    t.match((await slow.finished).at(-1), { status: 'success' })
  })
})
