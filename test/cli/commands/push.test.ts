import t from 'tap'
import { execFileSync } from 'node:child_process'
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  readdirSync,
  rmSync,
  symlinkSync,
  writeFileSync
} from 'node:fs'
import { randomBytes } from 'node:crypto'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Project } from '../../../lib/model/project.js'
import { startCutProxy } from '../../support/cut-proxy.js'
import { startServe, type Serving } from '../../support/serve-process.js'
import { startReceiver } from '../../support/receiver.js'
import { svc, type SvcOptions } from '../../support/svc.js'
import { noTerminal, svcOnTerminal } from '../../support/terminal.js'

interface Stage {
  server: Serving
  project: Project
  /** Where the project's files are, with svc.config.json. */
  cwd: string
  deployPath: string
  env: Record<string, string>
  options: SvcOptions
  /** The same with a temporary directory that nothing else uses. */
  traced: SvcOptions
}

const cwd = t.testdir({ tmp: {} })
const started = startServe(t, cwd)
let number = 0

/** A project of its own for each case, on the one server. */
async function stage(config: object = {}): Promise<Stage> {
  const server = await started
  const name = `site${++number}`
  const deployPath = join(cwd, `www${number}`)
  const project = await server.createProject({ name, deployPath })
  const site = join(cwd, name)
  mkdirSync(join(site, 'assets'), { recursive: true })
  writeFileSync(join(site, 'index.html'), '<h1>one</h1>')
  writeFileSync(join(site, 'assets/app.js'), 'app()')
  writeFileSync(
    join(site, 'svc.config.json'),
    JSON.stringify({ projectId: project.id, serverUrl: server.url, files: ['index.html', 'assets/**'], ...config })
  )
  const env = { SVC_DEPLOY_TOKEN: project.token }
  const traced = { cwd: site, env: { ...env, TMPDIR: join(cwd, 'tmp') } }
  return { server, project, cwd: site, deployPath, env, options: { cwd: site, env }, traced }
}

/** Nothing of a push with the options `traced` may stay in the temporary directory. */
function leftBehind(): string[] {
  return readdirSync(join(cwd, 'tmp'))
}

t.test('push packs, uploads, prints the output and the result', async t => {
  const { project, deployPath, traced: options } = await stage({ env: { FROM_FILE: 'file', BOTH: 'file' } })
  const words = [
    'push',
    '-m',
    'New prices',
    '--pre',
    'echo before',
    '--post',
    'echo after $FROM_FILE $BOTH "$SPACED"',
    '--set-env',
    'BOTH=flag',
    '--set-env',
    'SPACED=a = b'
  ]
  const { code, stdout, stderr } = await svc(words, options)
  t.equal(code, 0, stderr)
  t.match(stdout, /^before$/m)
  t.match(stdout, /^after file flag a = b$/m)
  t.match(stdout, new RegExp(`✔ success: deployed to ${project.id} in [\\d.]+s \\(dep_\\w+\\)\\n$`))
  const page = `${(await started).url}/deployments/dep_`
  t.match(
    stderr,
    new RegExp(`^Packing \\./…\\nPacked 2 files, .*\\nUploading .* to http.*…\\nUploaded .*\\n${page}\\w+\\n$`)
  )
  t.equal(readFileSync(join(deployPath, 'index.html'), 'utf8'), '<h1>one</h1>')
  t.notOk(existsSync(join(deployPath, 'svc.config.json')), 'only what "files" names')
  t.match(await (await started).deployments(project.id), [
    { status: 'success', message: 'New prices', triggerSource: 'cli' }
  ])
  t.same(leftBehind(), [])
})

t.test('push fails if the deployment fails', async t => {
  const { options } = await stage()
  const { code, stdout } = await svc(['push', '--command', 'echo oh no; exit 3'], options)
  t.equal(code, 1)
  t.match(stdout, /^oh no$/m)
  t.match(stdout, /✘ failed after [\d.]+s: .*exit code 3.* \(dep_\w+\)\n$/)
  t.equal(stdout.match(/failed after/g)?.length, 1, 'told once')
  const { stderr } = await svc(['push', '--command', 'echo oh no; exit 3', '--json'], options)
  t.match(stderr, /✗ failed after .*exit code 3/, 'the whole output')
})

t.test('push --json prints the result on stdout and the output on stderr', async t => {
  const { options } = await stage({ postDeploy: 'echo hello' })
  const { code, stdout, stderr } = await svc(['push', '--json'], options)
  t.equal(code, 0)
  t.match(JSON.parse(stdout), { deployId: /^dep_/, status: 'success', duration: /s$/ })
  t.match(stderr, /^hello$/m)
})

t.test('push --json contains the record, also of an early failure', async t => {
  const { project, cwd, options, server } = await stage()
  const failed = await svc(['push', '--json', '-m', 'Prices', '--command', 'exit 3'], options)
  t.equal(failed.code, 1)
  const { deployId, ...result } = JSON.parse(failed.stdout)
  t.match(result, {
    status: 'failed',
    projectId: project.id,
    message: 'Prices',
    url: `${server.url}/deployments/${deployId}`,
    error: { code: 'deployment_failed', message: /exit code 3/ },
    deployment: { id: deployId, status: 'failed', output: /exit code 3/ }
  })
  const early: Array<[words: string[], code: number, result: object]> = [
    [
      ['--token', 'wrong-token'],
      1,
      { projectId: project.id, provenance: { source: 'cli' }, error: { code: 'unauthorized', message: /--token/ } }
    ],
    [['--out', 'gone'], 1, { projectId: project.id, error: { code: /\w/ } }],
    [['-m', 'a\nb'], 2, { message: 'a\nb', error: { code: 'usage' } }],
    [['--server', 'http://127.0.0.1:1'], 1, { error: { code: 'unreachable' } }]
  ]
  for (const [words, code, wanted] of early) {
    const ended = await svc(['push', '--json', ...words], options)
    t.equal(ended.code, code, words.join(' '))
    t.match(
      JSON.parse(ended.stdout),
      { deployId: null, status: 'failed', url: null, deployment: null, ...wanted },
      words.join(' ')
    )
    t.match(ended.stderr, /^error: /m)
  }
  t.ok(existsSync(cwd))
})

t.test('push in a CI job prints a safe section and writes a summary', async t => {
  const { cwd, options, server } = await stage({ postDeploy: 'echo "::add-mask::x"; echo "##[add-path]/evil"; exit 3' })
  const summary = join(cwd, 'summary.md')
  const env = {
    ...options.env,
    GITHUB_ACTIONS: 'true',
    GITHUB_STEP_SUMMARY: summary,
    GITHUB_REF: 'refs/heads/main',
    GITHUB_TOKEN: 'hunter2'
  }
  const { code, stdout } = await svc(['push'], { ...options, env })
  t.equal(code, 1)
  const lines = stdout.trim().split('\n')
  const word = /^::stop-commands::(.+)$/.exec(lines[1] as string)?.[1]
  t.equal(lines[0], '::group::Deployment output')
  t.ok(lines.indexOf('::add-mask::x') > 1 && lines.indexOf('::add-mask::x') < lines.indexOf(`::${word}::`))
  t.match(lines.at(-2), '::endgroup::')
  t.match(lines.at(-1), /^✘ failed after /)
  t.match(readFileSync(summary, 'utf8'), /^### ✘ Deployment to site\d+: failed\n[^]*\| Error \| .*exit code 3/)
  t.match(readFileSync(summary, 'utf8'), `](${server.url}/deployments/dep_`)
  t.equal((await svc(['push', '--token', 'wrong-token'], { ...options, env })).code, 1)
  t.match(readFileSync(summary, 'utf8').split('###')[2], /Deployment to proj&#95;\w+: failed\n/)
  t.notMatch(readFileSync(summary, 'utf8'), /hunter2|wrong-token/)
  const json = await svc(['push', '--json'], { ...options, env: { ...env, GITHUB_STEP_SUMMARY: cwd } })
  t.match(JSON.parse(json.stdout), { status: 'failed' }, 'standard output is JSON alone')
  t.match(json.stderr, /^::stop-commands::[^]*^::add-mask::x$[^]*^::endgroup::$[^]*^warning: cannot write the summary/m)
})

t.test('push --out, --ignore and --no-ignore-builtin select the packed files', async t => {
  const { cwd, deployPath, options } = await stage({ files: [] })
  mkdirSync(join(cwd, 'dist'))
  for (const name of ['a.js', 'a.js.map', 'debug.log', '.well-known']) writeFileSync(join(cwd, 'dist', name), name)
  t.equal((await svc(['push', '--out', 'dist', '--ignore', '*.map'], options)).code, 0)
  t.same(readdirSync(deployPath).sort(), ['.well-known', 'a.js'])
  t.equal((await svc(['push', '--out', 'dist', '--ignore', '*.map', '--no-ignore-builtin'], options)).code, 0)
  t.same(readdirSync(deployPath).sort(), ['.well-known', 'a.js', 'debug.log'])
})

t.test('push uses the subject of the git commit if there is no message', async t => {
  const { cwd, project, options } = await stage()
  try {
    const git = (...words: string[]) =>
      execFileSync('git', ['-c', 'user.name=A', '-c', 'user.email=a@b.test', '-c', 'commit.gpgsign=false', ...words], {
        cwd,
        stdio: 'ignore'
      })
    git('init', '-q')
    git('add', '.')
    git('commit', '-q', '-m', 'Lower the prices\n\nA body.')
    git('remote', 'add', 'origin', 'https://bot:hunter2@git.test/team/shop.git')
  } catch {
    t.comment('skipped: git is not on this machine')
    return
  }
  await svc(['push'], options)
  await svc(['push', '-m', ''], options)
  const origin = {
    source: 'cli',
    commit: /^[0-9a-f]{40}$/,
    author: 'A',
    subject: 'Lower the prices',
    dirty: false,
    repository: 'https://git.test/team/shop.git',
    ci: null
  }
  t.match(await (await started).deployments(project.id), [
    { message: null, provenance: origin },
    { message: 'Lower the prices', provenance: origin }
  ])

  const withoutGit = mkdtempSync(join(tmpdir(), 'svc-no-git-'))
  t.teardown(() => rmSync(withoutGit, { recursive: true }))
  symlinkSync(process.execPath, join(withoutGit, 'node'))
  const env = { ...options.env, PATH: withoutGit, DRONE: 'true', DRONE_BUILD_NUMBER: '7', DRONE_BRANCH: 'main' }
  await svc(['push'], { ...options, env })
  await svc(['push', '--no-provenance'], { ...options, env: { ...options.env, DRONE: 'true' } })
  t.match(await (await started).deployments(project.id), [
    { message: null, provenance: null },
    { message: null, provenance: { commit: null, branch: 'main', ci: { system: 'Drone', run: '7' } } }
  ])
})

t.test('push --post-deploy-async does not wait for the script', async t => {
  const { options, deployPath } = await stage({ postDeploy: 'until [ -e go ]; do sleep 0.05; done' })
  t.match(await svc(['push', '--post-deploy-async', 'true', '--json'], options), { code: 0 })
  writeFileSync(join(deployPath, 'go'), '')
})

t.test('push without --env uses svc.config.json even if there are several environments', async t => {
  const { cwd, project, deployPath, options, env } = await stage()
  writeFileSync(join(cwd, 'svc.config.staging.json'), JSON.stringify({ projectId: 'proj_unknown' }))
  writeFileSync(join(cwd, 'svc.config.live.json'), readFileSync(join(cwd, 'svc.config.json')))
  t.match(await svc(['push'], options), { code: 0 }, 'svc.config.json applies')
  t.match(await svc(['push', '--env', 'default'], options), { code: 0 })
  t.match(await svc(['push', '--env', 'other'], options), {
    code: 1,
    stderr:
      /Cannot find svc\.config\.other\.json.* svc\.config\.json \(--env default\), svc\.config\.live\.json, svc\.config\.staging\.json/
  })
  t.equal((await svc(['push', '--env', 'live'], options)).code, 0)
  t.ok(existsSync(join(deployPath, 'index.html')))

  await t.test('push asks for the environment on a terminal and shows progress bars', { skip: noTerminal }, async t => {
    const { code, text } = await svcOnTerminal(['push'], [{ see: 'Choose an environment: ', type: 'live\r' }], {
      cwd,
      env
    })
    t.equal(code, 0, text)
    t.match(text, /1\) svc\.config\.json\r\n {2}2\) live\r\n {2}3\) staging/)
    t.match(text, 'Packing ./ ')
    t.match(text, /\r\x1b\[KUploaded .* in /)
    t.match(text, `deployed to ${project.id}`)
    t.match(text, '\x1b[32m✔ success\x1b[39m')
  })
})

t.test("push shows the server's reason for a refusal", async t => {
  const { server, project, cwd, traced: options } = await stage()
  t.match(await svc(['push', '--token', 'wrong-token'], options), {
    code: 1,
    stdout: '',
    stderr:
      /^error: .*\(the token came from --token\)\. It is wrong, or was replaced on the server\. An administrator can print the deploy token with "svc projects token proj_/m
  })
  const other = await server.createProject({ name: 'other', deployPath: join(cwd, '../other') })
  t.match(await svc(['push', '--project', other.id], options), {
    code: 1,
    stderr: `error: The deploy token from SVC_DEPLOY_TOKEN belongs to project ${project.name} (${project.id}), not to ${other.id} (from --project)`
  })
  t.match(await svc(['push', '--token', '-'], { ...options, input: server.adminToken }), {
    code: 1,
    stderr:
      /^error: The token from --token is the admin token, but a push needs the deploy token of the project or a named token\. An administrator can print the deploy token with "svc projects token proj_/m
  })
  await server.api('PUT', '/api/settings', { global_deploy_token: 'a-global-deploy-token-for-1-test' })
  t.match(
    await svc(['push', '--project', 'proj_unknown', '--token', '-'], {
      ...options,
      input: 'a-global-deploy-token-for-1-test'
    }),
    { code: 1, stderr: /^error: Project not found/m }
  )

  await server.api('PUT', '/api/settings', { max_upload_size: '1' })
  writeFileSync(join(cwd, 'assets/large.bin'), randomBytes(8 * 1024 * 1024))
  const large = await svc(['push'], options)
  t.match(large, { code: 1, stdout: '', stderr: /^error: .*larger than 1\.0 MB.*max_upload_size/m })
  t.notMatch(large.stderr, /EPIPE|ECONNRESET|closed the connection/)
  const wrong = await svc(['push', '--token', 'wrong-token'], options)
  t.match(wrong, { code: 1, stderr: /^error: .*token/m })
  await server.api('PUT', '/api/settings', { max_upload_size: '500', global_deploy_token: '' })
  t.same(await server.deployments(project.id), [])
  t.same(leftBehind(), [])
})

t.test('Ctrl-C while uploading leaves nothing behind', async t => {
  const { server, project, cwd, traced: options } = await stage()
  writeFileSync(join(cwd, 'assets/large.bin'), randomBytes(8 * 1024 * 1024))
  const slow = await startCutProxy(t, server.url, { bytesPerSecond: 256 * 1024 })
  const { code, stderr } = await svc(['push', '--server', slow.url], { ...options, interruptAt: /Uploading/ })
  t.equal(code, 130)
  t.match(stderr, /Interrupted: nothing was deployed\n$/)
  t.same(leftBehind(), [])
  t.same(await server.deployments(project.id), [])
})

t.test('Ctrl-C while deploying detaches and prints how to follow', async t => {
  const {
    server,
    project,
    traced: options,
    deployPath
  } = await stage({
    postDeploy: 'echo begun; until [ -e go ]; do sleep 0.05; done; echo done'
  })
  const { code, stdout, stderr } = await svc(['push'], { ...options, interruptAt: /^begun$/m })
  t.equal(code, 130)
  t.notMatch(stdout, /^done$/m)
  const [deployment] = await server.deployments(project.id)
  t.match(stderr, `Detached: the deployment continues. Follow it with: svc logs -f ${deployment?.id}\n`)
  t.same(leftBehind(), [])
  writeFileSync(join(deployPath, 'go'), '')
  const followed = await svc(['logs', '-f', deployment?.id ?? ''], options)
  t.match(followed, { code: 0, stdout: /^done$/m })
})

t.test('push continues to follow after a broken connection and prints each line once', async t => {
  const { server, project, options } = await stage({
    postDeploy: 'for i in 1 2 3 4 5 6; do echo line $i; sleep 0.3; done'
  })
  const between = await startCutProxy(t, server.url)
  let cuts = 0
  const { code, stdout, stderr } = await svc(['push', '--server', between.url], {
    ...options,
    onOutput(text) {
      if ((cuts === 0 && text.includes('line 2')) || (cuts === 1 && text.includes('line 4'))) {
        cuts++
        between.cut()
        between.mend()
      }
    }
  })
  t.equal(code, 0, stderr)
  t.equal(cuts, 2)
  const [deployment] = await server.deployments(project.id)
  t.match(
    stderr,
    `the connection was lost, reconnecting. The deployment continues; to follow it later: svc logs -f ${deployment?.id} --server ${between.url}`
  )
  t.same(
    stdout.match(/^line \d$/gm),
    [1, 2, 3, 4, 5, 6].map(number => `line ${number}`)
  )
  t.match(stdout, /✔ success/)
})

t.test('push reports its start to the telemetry endpoint without waiting', async t => {
  const receiver = await startReceiver(t)
  receiver.behave('hang')
  const { options, project } = await stage()
  const env = { ...options.env, SVC_TELEMETRY_ENDPOINT: receiver.url }
  t.match(await svc(['push'], { ...options, env }), { code: 0 })
  t.equal(receiver.requests.length, 1)
  const text = receiver.requests[0]?.text as string
  t.match(JSON.parse(text), { event: 'svc.push.start', instanceId: String, os: process.platform })
  for (const secret of [project.id, project.token, project.name]) t.notMatch(text, secret)
})
