import t from 'tap'
import { chmodSync, existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { openBrowser, openerFor } from '../../../lib/cli/commands/deployments.js'
import { serveShop } from '../../support/shop.js'
import { type Ended, svc } from '../../support/svc.js'
import { noTerminal, svcOnTerminal } from '../../support/terminal.js'
import { deploySays } from '../../support/sentences/deploy.js'
import { until } from '../../support/until.js'

t.test('status', async t => {
  const { cwd, server, shop: project } = await serveShop(t)
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

  await t.test('counts the components of the release', async t => {
    const { deployId } = good
    const components = Array.from({ length: 214 }, (_, at) => ({ name: `c${at}`, version: '1' }))
    const list = JSON.stringify({ bomFormat: 'CycloneDX', specVersion: '1.5', components })
    t.notMatch((await svc(['status', project.id], options)).stdout, 'SBOM')
    writeFileSync(join(server.home, `deployments/${deployId}.sbom.json`), list)
    t.match((await svc(['status', project.id], options)).stdout, /\nSBOM: 214 components\n/)
    t.equal(JSON.parse((await svc(['status', project.id, '--json'], options)).stdout).components, 214)
    const token = { cwd, env: { SVC_SERVER_URL: server.url, SVC_DEPLOY_TOKEN: project.token } }
    t.match((await svc(['status', project.id], token)).stdout, 'SBOM: 214 components', 'with the deploy token')
    t.notMatch((await svc(['status', project.id, '--branch', 'main'], options)).stdout, 'SBOM')
  })

  await t.test('shows failures in the background', async t => {
    const other = await server.createProject({ name: 'behind', deployPath: join(cwd, 'behind') })
    const push = await server.upload(other, { 'a.txt': 'one' }, { postDeploy: 'exit 4', postDeployAsync: 'true' })
    await push.finished
    const end = /The post-deploy script in the background ended with exit code 4/
    while (!end.test((await svc(['logs', push.deployId], options)).stdout));
    while (!/in the background/.test((await svc(['status', other.id], options)).stdout));
    const { stdout } = await svc(['status', other.id], options)
    t.match(stdout, `behind (${other.id}): failed in the background\n`)
    t.match(stdout, /^dep_\w+ +failed in the background /m)
    t.match((await svc(['list'], options)).stdout, / behind +failed in the background +production/)
    t.match(JSON.parse((await svc(['status', other.id, '--json'], options)).stdout).project, { status: 'success' })
    const { code, stderr } = await svc(['logs', '-f', push.deployId], options)
    t.equal(code, 0, 'the deployment is a success all the same')
    t.match(stderr, `${push.deployId}: the post-deploy script failed in the background`)
    t.match((await svc(['logs', push.deployId], options)).stderr, 'failed in the background')
    t.notMatch((await svc(['logs', good.deployId], options)).stderr, 'failed in the background')
  })

  await t.test('says what waits for somebody, also in the list of projects', async t => {
    const held = await server.createProject({ name: 'held', deployPath: join(cwd, 'held') })
    const push = await server.upload(held, { 'a.txt': 'one' }, { confirmSeconds: '3600' })
    const waits = /: waits for confirmation until (\d{4}-\d\d-\d\d )?\d\d:\d\d\n/
    await until(async () => waits.test((await svc(['status', held.id], options)).stdout))
    const { project: shown, waiting } = JSON.parse((await svc(['status', held.id, '--json'], options)).stdout)
    t.match(
      { shown, waiting },
      { shown: { status: 'running' }, waiting: [{ for: 'confirmation', deployId: push.deployId }] }
    )
    const token = { ...options, env: { ...env, SVC_TOKEN: held.token } }
    t.match((await svc(['status', held.id], token)).stdout, waits, 'with the deploy token of the project')
    await svc(['lock', held.id, '--reason', 'release day'], options)
    const { stdout } = await svc(['list'], options)
    t.match(stdout, / held +waits for confirmation until [\d: -]+, locked +production/)
    t.match(stdout, / shop +failed +production/, 'other projects have no mark')
    await svc(['unlock', held.id], options)
    t.equal((await svc(['confirm', push.deployId], options)).code, 0)
    await push.finished
    t.match((await svc(['status', held.id], options)).stdout, `held (${held.id}): success\n`)
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
      stderr: /--commit is invalid: expected at least 4 hexadecimal digits/
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

t.test('logs and cancel', async t => {
  const { cwd, server, shop: project } = await serveShop(t)
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

  await t.test('logs says that an output is lost, and no list fails', async t => {
    const pushes = [await server.upload(project, { 'a.txt': '1' }), await server.upload(project, { 'a.txt': '2' })]
    for (const push of pushes) await push.finished
    const [gone, directory] = pushes.map(({ deployId }) => `deployments/${deployId}.log`) as [string, string]
    for (const name of [gone, directory]) rmSync(join(server.home, name))
    mkdirSync(join(server.home, directory))
    for (const [at, says] of [deploySays.outputLost(gone), deploySays.outputNoFile(directory)].entries()) {
      const id = pushes[at]?.deployId as string
      t.match(await svc(['logs', id], options), { code: 1, stdout: `→ ${says}\n` })
      t.match(await svc(['logs', '-f', id], options), { code: 0, stdout: `→ ${says}\n` })
      const { code, stdout } = await svc(['logs', '--json', id], options)
      t.match({ code, ...JSON.parse(stdout) }, { code: 1, output: `→ ${says}\n`, outputLost: true })
    }
    const list = (await svc(['api', 'GET', '/api/logs'], options)).stdout
    t.match(
      (JSON.parse(list) as Array<{ outputLost?: true }>).map(({ outputLost }) => outputLost),
      [true, true]
    )
    t.match(await svc(['status', project.id], options), { code: 0, stdout: pushes[1]?.deployId as string })
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
    let cancelled: Promise<Ended> | null = null
    const followed = await svc(['logs', '-f', long.deployId], {
      ...options,
      onOutput(text) {
        if (text.includes('begun')) cancelled ??= svc(['cancel', long.deployId], options)
      }
    })
    t.match(followed, { code: 1, stderr: /failed in/ })
    t.match(await cancelled, { code: 0, stdout: /Cancelled dep_/ })
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

const config = JSON.stringify({ projectId: 'proj_1', serverUrl: 'https://deploy.test/svc' })

t.test('open prints the address of a page', async t => {
  const cwd = t.testdir({ 'svc.config.json': config })
  const cases: Array<[words: string[], address: string]> = [
    [[], 'https://deploy.test/svc/projects/proj_1'],
    [['dep_1'], 'https://deploy.test/svc/deployments/dep_1'],
    [['proj_2'], 'https://deploy.test/svc/projects/proj_2'],
    [['--server', 'https://other.test', 'dep_1'], 'https://other.test/deployments/dep_1']
  ]
  for (const [words, address] of cases)
    t.match(await svc(['open', ...words], { cwd }), { code: 0, stdout: `${address}\n`, stderr: '' })
  t.match(await svc(['open', '../x'], { cwd }), { code: 1, stdout: '', stderr: /token is missing/ }, 'a name')
  t.match(await svc(['open', '--server', 'https://other.test'], { cwd: t.testdir({}) }), {
    code: 0,
    stdout: 'https://other.test/\n'
  })
})

t.test(
  'open starts a browser on a terminal, without a token',
  { skip: noTerminal || (process.platform !== 'linux' && 'the browser is started by xdg-open') },
  async t => {
    const cwd = t.testdir({
      'svc.config.json': config,
      bin: {
        'xdg-open': '#!/bin/sh\n{ echo "$@"; env; } > "$HOME/opened.part"; mv "$HOME/opened.part" "$HOME/opened"\n'
      }
    })
    chmodSync(join(cwd, 'bin/xdg-open'), 0o755)
    const env = {
      PATH: `${join(cwd, 'bin')}:${process.env['PATH']}`,
      DISPLAY: ':0',
      SVC_TOKEN: 'hidden-admin',
      SVC_DEPLOY_TOKEN: 'hidden-deploy'
    }
    t.match(await svcOnTerminal(['open', 'dep_1', '--no-browser'], [], { cwd, env }), {
      code: 0,
      text: /deployments\/dep_1/
    })
    t.notOk(existsSync(join(cwd, 'opened')))
    t.match(await svcOnTerminal(['open', 'dep_1'], [], { cwd, env }), { code: 0, text: /deployments\/dep_1/ })
    await until(() => existsSync(join(cwd, 'opened')))
    const opened = readFileSync(join(cwd, 'opened'), 'utf8')
    t.match(opened, /^https:\/\/deploy\.test\/svc\/deployments\/dep_1\n/)
    t.notMatch(opened, /hidden-/)

    writeFileSync(join(cwd, 'opened'), '')
    const { DISPLAY: _, ...without } = env
    t.match(await svcOnTerminal(['open', 'dep_1'], [], { cwd, env: without }), {
      code: 0,
      text: /No browser was found/
    })
  }
)

t.test('cancel stops the script of a deployment, and the deployment fails', async t => {
  const { cwd, server, shop: project } = await serveShop(t)
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

t.test('openerFor returns the program of the platform, or null without a screen', async t => {
  const address = 'https://deploy.test/?a=1&b=2'
  t.match(openerFor(address, 'darwin', {}), { program: 'open', words: [address] })
  t.match(openerFor(address, 'win32', {}), { words: ['url.dll,FileProtocolHandler', address] })
  t.match(openerFor(address, 'linux', { WAYLAND_DISPLAY: 'wayland-0' }), { program: 'xdg-open', words: [address] })
  t.equal(openerFor(address, 'linux', {}), null)
})

t.test('openBrowser refuses if no browser can be opened', async t => {
  t.equal(await openBrowser('https://deploy.test', process.platform === 'linux' ? {} : { PATH: '/nowhere' }), false)
})
