import { execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { startCutProxy } from '../support/cut-proxy.js'
import { startServe } from '../support/serve-process.js'
import { until } from '../support/until.js'
import { zipOf } from '../support/zip.js'
import { blocksOf } from './document.js'

/** Runs each program of docs/streams.md unchanged. */

type Language = 'sh' | 'js' | 'python' | 'go'
type Name = 'deploy' | 'follow' | 'terminal'

const [major = 0] = process.versions.node.split('.').map(Number)
/** For each language: the command that runs a program, and the one that shows whether the language is installed. */
const languages: Record<Language, { file: string; run: string[]; probe: string[] }> = {
  sh: { file: 'program.sh', run: ['bash'], probe: ['bash', '--version'] },
  // The WebSocket is behind a flag before Node 22.
  js: {
    file: 'program.mjs',
    run: [process.execPath, ...(major >= 20 && major < 22 ? ['--experimental-websocket'] : [])],
    probe: [process.execPath, '--version']
  },
  python: { file: 'program.py', run: ['python3'], probe: ['python3', '--version'] },
  go: { file: 'program.go', run: ['go', 'run'], probe: ['go', 'version'] }
}

const zip = await zipOf({ 'index.html': 'hello' })
/** The cache of this machine's Go, because Go takes half a minute to compile its library. */
const goCache =
  missing('go', 'deploy') === false ? execFileSync('go', ['env', 'GOCACHE'], { encoding: 'utf8' }).trim() : ''
const programs = new Map(blocksOf('docs/streams.md').map(({ mark, text }) => [mark, text]))

function missing(language: Language, name: Name): string | false {
  if (language === 'js' && name === 'terminal' && major < 20) return 'this Node has no WebSocket'
  const [program = '', ...words] = languages[language].probe
  try {
    execFileSync(program, words, { stdio: 'ignore' })
    return false
  } catch {
    return `${program} is not on this machine`
  }
}

interface Ended {
  code: number | null
  stdout: string
  stderr: string
}

/** Runs a program of the document in a directory with build.zip. `said` returns its output so far. */
function start(
  t: Test,
  { language, name }: { language: Language; name: Name },
  env: Record<string, string>
): { ended: Promise<Ended>; said(): string } {
  const cwd = mkdtempSync(join(tmpdir(), 'svc-streams-'))
  t.teardown(() => rmSync(cwd, { recursive: true, force: true }))
  const {
    file,
    run: [program = '', ...words]
  } = languages[language]
  writeFileSync(join(cwd, file), programs.get(`${language} ${name}`) ?? '')
  writeFileSync(join(cwd, 'build.zip'), zip)
  const inherited = { PATH: process.env['PATH'] ?? '', HOME: cwd, GOCACHE: goCache, PYTHONUNBUFFERED: '1' }
  const child = spawn(program, [...words, file], {
    cwd,
    env: { ...inherited, ...env },
    stdio: ['ignore', 'pipe', 'pipe']
  })
  let [stdout, stderr] = ['', '']
  child.stdout.setEncoding('utf8').on('data', (text: string) => (stdout += text))
  child.stderr.setEncoding('utf8').on('data', (text: string) => (stderr += text))
  const ended = once(child, 'close').then(([code]) => ({ code: code as number | null, stdout, stderr }))
  return { ended, said: () => stdout }
}

t.test('each stream has a program in each language', async t => {
  for (const language of Object.keys(languages)) {
    for (const name of ['deploy', 'follow', 'terminal'])
      t.ok(programs.has(`${language} ${name}`), `${language} ${name}`)
  }
})

for (const language of Object.keys(languages) as Language[]) {
  t.test(`the programs in ${language} run`, async t => {
    const cwd = t.testdir({ site: {} })
    const served = await startServe(t, cwd)
    const project = await served.createProject({ name: 'Site', deployPath: join(cwd, 'site') })
    const common = { SVC_SERVER: served.url, SVC_TOKEN: project.token, PROJECT: project.id }
    const run = (t: Test, name: Name, env: Record<string, string>) => start(t, { language, name }, env).ended

    await t.test('deploy', { skip: missing(language, 'deploy') }, async t => {
      const good = await run(t, 'deploy', common)
      t.match(good, { code: 0 }, good.stderr)
      t.match(good.stdout + good.stderr, /success/)
      const refused = await run(t, 'deploy', { ...common, SVC_TOKEN: 'wrong-token' })
      t.not(refused.code, 0)
      t.match(refused.stdout + refused.stderr, /401/)
      await served.changeProject(project.id, { postDeployScript: 'exit 3' })
      const failed = await run(t, 'deploy', common)
      t.equal(failed.code, 1)
      t.match(failed.stdout + failed.stderr, /failed/)
      await served.changeProject(project.id, { postDeployScript: '' })
    })

    await t.test('follow', { skip: missing(language, 'follow') }, async t => {
      const go = join(cwd, 'go')
      await served.changeProject(project.id, {
        preDeployScript: `echo line 1; echo line 2; while test ! -e '${go}'; do sleep 0.05; done; echo line 3`
      })
      const upload = await served.upload(project, { 'index.html': 'again' })
      const proxy = await startCutProxy(t, served.url)
      const { ended, said } = start(
        t,
        { language, name: 'follow' },
        { ...common, SVC_SERVER: proxy.url, DEPLOYMENT: upload.deployId }
      )
      await until(() => said().includes('line 2'))
      // The shell program does not reconnect.
      if (language !== 'sh') {
        proxy.cut()
        proxy.mend()
      }
      writeFileSync(go, '')
      const { stdout, stderr } = await ended
      t.strictSame(stdout.match(/^line \d$/gm), ['line 1', 'line 2', 'line 3'], stderr)
      t.match(stdout, /status: success\n$/)
      await served.changeProject(project.id, { preDeployScript: '' })
      t.ok(existsSync(join(cwd, 'site/index.html')))
    })

    await t.test('terminal', { skip: missing(language, 'terminal') }, async t => {
      const ended = await run(t, 'terminal', { ...common, SVC_TOKEN: served.adminToken })
      t.equal(ended.code, 0, ended.stderr)
      t.match(ended.stdout, language === 'sh' ? /"available":true/ : /exit 7[^]*exit code: 7\n$/)
    })
  })
}
