import t from 'tap'
import { execFileSync } from 'node:child_process'
import { existsSync, mkdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { suggestOutputDirectory } from '../../../lib/cli/commands/init.js'
import { findProgram } from '../../support/programs.js'
import { startServe } from '../../support/serve-process.js'
import { svc } from '../../support/svc.js'
import { noTerminal, svcOnTerminal } from '../../support/terminal.js'

const read = (cwd: string, path: string) => JSON.parse(readFileSync(join(cwd, path), 'utf8')) as Record<string, unknown>

t.test('init writes the file from its flags, without the token', async t => {
  const cwd = t.testdir({})
  const words = ['init', '--project', 'proj_1', '--server', 'https://deploy.test/a/', '--out', 'dist', '--token', '-']
  const { code, stdout, stderr } = await svc(words, { cwd, input: 'the-deploy-token\n' })
  t.equal(code, 0)
  t.match(stdout, /Wrote .*svc\.config\.json\n/)
  t.match(stderr, /Next: svc push/)
  t.strictSame(read(cwd, 'svc.config.json'), {
    projectId: 'proj_1',
    outputDir: 'dist',
    serverUrl: 'https://deploy.test/a'
  })
  t.strictSame(read(cwd, '.svc/config.json'), {
    projectToken: { proj_1: 'the-deploy-token' },
    projectTokenOrigin: { proj_1: 'https://deploy.test' }
  })
})

t.test('init --env writes the file of the environment and stores the token separately', async t => {
  const cwd = t.testdir({})
  await svc(['init', '--project', 'proj_1', '--env', 'staging', '--token', 'the-deploy-token'], { cwd })
  t.match(read(cwd, 'svc.config.staging.json'), { projectId: 'proj_1', outputDir: './' })
  t.strictSame(read(cwd, '.svc/config.json'), { projectToken: { 'proj_1:staging': 'the-deploy-token' } })
})

t.test(
  'init --token-store local keeps the token in .env.local, and without git goes by the .gitignore there',
  async t => {
    const env = { PATH: '/nowhere' }
    const cwd = t.testdir({ '.git': {}, '.env.local': 'OTHER=1\n' })
    const words = ['init', '--project', 'proj_1', '--token', 'the-deploy-token', '--token-store', 'local']
    t.match((await svc(words, { cwd, env })).stderr, /Add it to \.gitignore/)
    t.equal(readFileSync(join(cwd, '.env.local'), 'utf8'), 'OTHER=1\nSVC_DEPLOY_TOKEN=the-deploy-token\n')
    t.notOk(existsSync(join(cwd, '.svc/config.json')))

    const ignored = t.testdir({ '.git': {}, '.gitignore': 'dist\n.env.local\n' })
    t.notMatch((await svc(words, { cwd: ignored, env })).stderr, /gitignore/)
    t.equal(statSync(join(ignored, '.env.local')).mode & 0o777, 0o600)
  }
)

t.test(
  'init --token-store local asks git, also below the top of a repository',
  { skip: findProgram('git') === null && 'git is not on this machine' },
  async t => {
    const words = ['init', '--project', 'proj_1', '--token', 'the-deploy-token', '--token-store', 'local']
    const warnsIn = async (files: object): Promise<boolean> => {
      const top = t.testdir({ packages: { shop: {} }, ...files })
      execFileSync('git', ['init', '--quiet', top])
      return (await svc(words, { cwd: join(top, 'packages/shop') })).stderr.includes('Add it to .gitignore')
    }
    t.equal(await warnsIn({}), true, 'nothing ignores it')
    t.equal(await warnsIn({ '.gitignore': '.env*\n' }), false, 'the file at the top')
    t.equal(await warnsIn({ '.gitignore': '.env*\n!.env.local\n' }), true, 'taken back')
    t.equal(await warnsIn({ packages: { shop: { '.gitignore': '*.local\n' } } }), false, 'its own file')
  }
)

t.test('init replaces an existing file only with --force', async t => {
  const cwd = t.testdir({ 'svc.config.json': '{"projectId":"proj_1","postDeploy":"mine"}' })
  t.match(await svc(['init', '--project', 'proj_2'], { cwd }), {
    code: 1,
    stderr: /already exists\. Use --force to replace it/
  })
  t.match(read(cwd, 'svc.config.json'), { projectId: 'proj_1' })
  t.equal((await svc(['init', '--project', 'proj_2', '--force'], { cwd })).code, 0)
  t.match(read(cwd, 'svc.config.json'), { projectId: 'proj_2' })
})

t.test('init asks on a terminal for missing values without showing the token', { skip: noTerminal }, async t => {
  const cwd = t.testdir({ dist: { 'index.html': '' } })
  const nobody = 'http://127.0.0.1:1'
  const { code, text } = await svcOnTerminal(
    ['init'],
    [
      { see: 'Server address [http://127.0.0.1:5431]: ', type: 'nonsense\r' },
      { see: 'Server address [http://127.0.0.1:5431]: ', type: `${nobody}\r` },
      { see: `connection refused by ${nobody}`, type: '' },
      { see: `Server address [${nobody}]: `, type: '\r' },
      { see: 'Admin token or deploy token (press Enter to skip): ', type: 'hidden-tokeX\x7fn\r' },
      { see: 'Cannot list the projects: ', type: '' },
      { see: 'Project id: ', type: 'proj_1\r' },
      { see: 'Directory to pack [dist]: ', type: '\r' }
    ],
    { cwd }
  )
  t.equal(code, 0, text)
  t.match(text, '"nonsense" is not an address')
  t.notMatch(text, 'hidden-token')
  t.strictSame(read(cwd, 'svc.config.json'), {
    projectId: 'proj_1',
    outputDir: 'dist',
    serverUrl: nobody
  })
  t.strictSame(read(cwd, '.svc/config.json'), {
    projectToken: { proj_1: 'hidden-token' },
    projectTokenOrigin: { proj_1: nobody }
  })
})

t.test('init lists the projects that a token may see', { skip: noTerminal }, async t => {
  const top = t.testdir({ admin: {}, deploy: {}, loggedIn: { dist: { 'index.html': 'one' } }, server: {} })
  const server = await startServe(t, join(top, 'server'))
  const [shop, forum] = [
    await server.createProject({ name: 'shop', deployPath: join(top, 'www/shop') }),
    await server.createProject({ name: 'forum', deployPath: join(top, 'www/forum') })
  ]
  const address = { see: 'Server address [http://127.0.0.1:5431]: ', type: `${server.url}\r` }
  const token = 'Admin token or deploy token (press Enter to skip): '
  const directory = { see: 'Directory to pack [./]: ', type: '\r' }
  const admin = await svcOnTerminal(
    ['init'],
    [
      address,
      { see: token, type: 'a-wrong-token\r' },
      { see: 'The token is not valid here', type: '' },
      { see: token, type: `${server.adminToken}\r` },
      { see: `2) shop (${shop.id})`, type: '' },
      { see: 'Choose a project: ', type: '2\r' },
      directory
    ],
    { cwd: join(top, 'admin') }
  )
  t.equal(admin.code, 0, admin.text)
  t.match(read(join(top, 'admin'), 'svc.config.json'), { projectId: shop.id, serverUrl: server.url })
  t.match(read(join(top, 'admin'), '.svc/config.json'), { projectToken: { [shop.id]: shop.token } })
  t.notMatch(
    readFileSync(join(top, 'admin/.svc/config.json'), 'utf8'),
    server.adminToken,
    'the admin token is not kept'
  )

  const deploy = await svcOnTerminal(['init'], [address, { see: token, type: `${forum.token}\r` }, directory], {
    cwd: join(top, 'deploy')
  })
  t.match(deploy, { code: 0, text: `The project is forum (${forum.id})` })
  t.match(read(join(top, 'deploy'), '.svc/config.json'), { projectToken: { [forum.id]: forum.token } })

  // A first visit: the token is all that is copied.
  const cwd = join(top, 'loggedIn')
  const login = [{ see: `Token for ${server.url}: `, type: `${server.adminToken}\r` }]
  t.match(await svcOnTerminal(['login', '--server', server.url], login, { cwd }), { code: 0 })
  const again = await svcOnTerminal(
    ['init'],
    [
      { see: `Server address [${server.url}]: `, type: '\r' },
      { see: 'Choose a project: ', type: `forum (${forum.id})\r` },
      { see: 'Directory to pack [dist]: ', type: '\r' }
    ],
    { cwd }
  )
  t.equal(again.code, 0, again.text)
  t.match(await svc(['push'], { cwd }), { code: 0 })
  t.equal(readFileSync(join(top, 'www/forum/index.html'), 'utf8'), 'one')
  t.match(await svc(['whoami'], { cwd }), { code: 0, stdout: `deploy token of forum (${forum.id})` })
})

t.test('init looks up a name after svc login, and stores the deploy token', async t => {
  const top = t.testdir({ admin: {}, deployer: {}, project: {}, nobody: {}, server: {} })
  const server = await startServe(t, join(top, 'server'))
  const shop = await server.createProject({ name: 'shop', deployPath: join(top, 'www/shop') })
  await server.createProject({ name: 'forum', deployPath: join(top, 'www/forum') })
  const init = (cwd: string, ...words: string[]) => svc(['init', ...words], { cwd: join(top, cwd) })
  const login = async (cwd: string, token: string) =>
    t.match(await svc(['login', '--server', server.url, '--token', token], { cwd: join(top, cwd) }), { code: 0 })

  await login('admin', server.adminToken)
  t.match(await init('admin', '--project', 'nothing'), { code: 1, stderr: /Project not found: "nothing"/ })
  t.notOk(existsSync(join(top, 'admin/svc.config.json')))
  t.match(await init('admin', '--project', 'shop'), { code: 0, stdout: /Stored the token for/ })
  t.match(read(join(top, 'admin'), 'svc.config.json'), { projectId: shop.id })
  t.match(read(join(top, 'admin'), '.svc/config.json'), { projectToken: { [shop.id]: shop.token } })
  mkdirSync(join(top, 'admin/dist'))
  writeFileSync(join(top, 'admin/dist/index.html'), 'one')
  t.match(await svc(['push', '--out', 'dist'], { cwd: join(top, 'admin') }), { code: 0 })

  const named = await server.api<{ token: string }>('POST', '/api/tokens', { name: 'ci', role: 'deployer' })
  await login('deployer', named.token)
  t.match(await init('deployer', '--project', 'shop'), { code: 0 })
  t.match(read(join(top, 'deployer'), 'svc.config.json'), { projectId: shop.id })
  t.notOk(read(join(top, 'deployer'), '.svc/config.json')['projectToken'], 'a named token pushes by itself')

  const own = ['--server', server.url, '--token', shop.token as string]
  t.match(await init('project', '--project', 'forum', ...own), { code: 1, stderr: /Project not found: "forum"/ })
  t.match(await init('project', '--project', 'shop', ...own), { code: 0 })
  t.match(read(join(top, 'project'), '.svc/config.json'), { projectToken: { [shop.id]: shop.token } })

  t.match(await init('nobody', '--project', 'shop', '--server', server.url), {
    code: 1,
    stderr: /Run "svc login" first/
  })
  const nowhere = ['--token', shop.token as string]
  t.match(await init('nobody', '--project', 'shop', ...nowhere), {
    code: 1,
    stderr: /address of the server is missing/
  })
  const wrong = ['--server', server.url, '--token', 'a-wrong-token']
  t.match(await init('nobody', '--project', 'shop', ...wrong), { code: 1, stderr: /did not list its projects/ })
  t.notOk(existsSync(join(top, 'nobody/svc.config.json')))
})

t.test('init --path creates the project, with the token of an admin only', async t => {
  const top = t.testdir({ server: {}, other: {}, deployer: {} })
  const cwd = join(top, 'server')
  const server = await startServe(t, cwd)
  const env = { SVC_HOME: server.home }
  t.match(await svc(['login'], { cwd, env }), { code: 0 })
  const init = (name: string, path: string, ...words: string[]) =>
    svc(['init', '--force', '--project', name, '--path', path, ...words], { cwd, env })
  const made = await init('shop', join(top, 'www/shop'))
  t.match(made, { code: 0, stdout: /Created shop \(proj_\w+\) → / }, made.stderr)
  const { projectId } = read(cwd, 'svc.config.json') as { projectId: string }
  const project = await server.api<{ token: string }>('GET', `/api/projects/${projectId}`)
  t.match(read(server.home, 'config.json'), { projectToken: { [projectId]: project.token } })

  const again = await init('Shop', join(top, 'www/shop'))
  t.match(again, { code: 0 }, 'it exists, with this target')
  t.notMatch(again.stdout, /Created/)
  t.match(await init('shop', join(top, 'www/other')), { code: 1, stderr: /exists with the target ".*www\/shop"/ })
  t.match(await init('wiki', 'relative'), { code: 1, stderr: /--path/ })
  t.match(await init(projectId, join(top, 'www/shop')), { code: 2, stderr: /give its name/ })
  t.equal((await server.api<unknown[]>('GET', '/api/projects')).length, 1)

  const { token } = await server.api<{ token: string }>('POST', '/api/tokens', { name: 'ci', role: 'deployer' })
  const words = ['init', '--project', 'wiki', '--path', join(top, 'www/wiki'), '--server', server.url, '--token', token]
  t.match(await svc(words, { cwd: join(top, 'deployer') }), { code: 1, stderr: /needs the token of an admin/ })
})

t.test('init creates a project on a terminal', { skip: noTerminal }, async t => {
  const top = t.testdir({ server: { site: {} } })
  const home = join(top, 'server')
  const server = await startServe(t, home)
  const cwd = join(home, 'site')
  const env = { SVC_HOME: server.home }
  const login = await svcOnTerminal(['login'], [], { cwd, env })
  t.match(login, { code: 0, text: `Logged in to ${server.url}` }, 'nothing is asked')
  const first = await svcOnTerminal(
    ['init'],
    [
      { see: `Server address [${server.url}]: `, type: '\r' },
      { see: 'The server has no projects yet.', type: '' },
      { see: 'Name of the new project [site]: ', type: '\r' },
      { see: 'Target directory on the server (absolute): ', type: 'relative\r' },
      { see: 'Name of the new project [site]: ', type: '\r' },
      { see: 'Target directory on the server (absolute): ', type: `${join(top, 'www/site')}\r` },
      { see: 'Directory to pack [./]: ', type: '\r' }
    ],
    { cwd, env }
  )
  t.match(first, { code: 0, text: /Created site \(proj_/ }, first.text)
  const second = await svcOnTerminal(
    ['init', '--force'],
    [
      { see: `Server address [${server.url}]: `, type: '\r' },
      { see: '2) a new project', type: '' },
      { see: 'Choose a project: ', type: '2\r' },
      { see: 'Name of the new project [site]: ', type: 'wiki\r' },
      { see: 'Target directory on the server (absolute): ', type: `${join(top, 'www/wiki')}\r` },
      { see: 'Directory to pack [./]: ', type: '\r' }
    ],
    { cwd, env }
  )
  t.match(second, { code: 0, text: /Created wiki \(proj_/ }, second.text)
})

t.test('init writes nothing when a question is answered with Ctrl-C', { skip: noTerminal }, async t => {
  const cwd = t.testdir({})
  const { code } = await svcOnTerminal(['init'], [{ see: 'Server address', type: '\x03' }], { cwd })
  t.equal(code, 130)
  t.notOk(existsSync(join(cwd, 'svc.config.json')))
})

t.test('suggestOutputDirectory returns the first usual directory that contains files', async t => {
  const cases: Array<[files: object, expected: string]> = [
    [{}, './'],
    [{ src: { a: '' } }, './'],
    [{ dist: {}, public: { a: '' } }, 'public'],
    [{ dist: { a: '' }, public: { a: '' } }, 'dist'],
    [{ build: 'a file', _site: { a: '' } }, '_site'],
    [{ out: { a: '' } }, 'out']
  ]
  for (const [files, expected] of cases)
    t.equal(await suggestOutputDirectory(t.testdir(files as never)), expected, JSON.stringify(files))
})
