import { execFileSync, spawnSync } from 'node:child_process'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { curlCommand, ownToken, pushCommand, tokenHint } from '../../../../www/elements/projects/push-command.js'
import { svc } from '../../../support/svc.js'

const project = { id: 'proj_abc' }

/** Returns the arguments and the standard input that a shell passes to the program `name` when it runs the commands. */
function givenTo(name: string, commands: string): string[] {
  const script = `${name}() { printf '%s\\0' "$@"; case " $* " in *" - "*|*" @- "*) cat;; esac; printf '\\0'; }\n${commands}`
  return execFileSync('sh', ['-c', script], { input: '' }).toString().split('\0').slice(0, -1)
}

t.test('quotes server and project for a shell, and pipes the token', async t => {
  const token = "it's $HOME `id`"
  const given = givenTo('svc', pushCommand(project, 'https://host/tools/svc', token))
  t.same(given.slice(0, 9), [
    'init',
    '--server',
    'https://host/tools/svc',
    '--project',
    'proj_abc',
    '--out',
    'dist',
    '--token',
    '-'
  ])
  t.equal(given[9], token, 'passed through standard input')
  t.equal(given[10], 'push')
})

t.test('keeps svc.config.json out of the served files', async t => {
  const cwd = t.testdir({ dist: { 'index.html': '<h1>one</h1>' }, 'source.ts': '' })
  const [, initLine = ''] = /(svc init .*)/.exec(pushCommand(project, 'http://127.0.0.1:1', 'tok')) ?? []
  const words = initLine.split(' ').slice(1)
  t.match(await svc(words, { cwd, input: 'tok' }), { code: 0 })
  t.strictSame(JSON.parse(readFileSync(join(cwd, 'svc.config.json'), 'utf8')), {
    projectId: 'proj_abc',
    outputDir: 'dist',
    serverUrl: 'http://127.0.0.1:1'
  })
  t.same(readdirSync(join(cwd, 'dist')), ['index.html'])
})

t.test('returns one curl command over several lines, which fails unless the deployment succeeds', async t => {
  /** Runs the command with a curl that notes what it is given and prints `answer`. */
  function run(answer: string): { code: number | null; given: string[]; shown: string } {
    const cwd = t.testdir({ given: '' })
    const curl = `curl() { { printf '%s\\0' "$@"; cat; printf '\\0'; } > given; printf '%s\\n' "$answer"; }`
    const words = ['-c', `${curl}\n${curlCommand(project, 'https://host', 'tok-1')}`]
    const { status, stdout, stderr } = spawnSync('sh', words, {
      cwd,
      env: { ...process.env, answer },
      encoding: 'utf8'
    })
    const given = readFileSync(join(cwd, 'given'), 'utf8').split('\0').slice(0, -1)
    return { code: status, given, shown: stdout + stderr }
  }
  const log = '{"event":"log","data":"echo {\\"status\\":\\"success\\"}"}'
  const { code, given, shown } = run(`${log}\n{"event":"status","status":"success","duration":"1s"}`)
  t.equal(code, 0)
  t.match(shown, log)
  t.same(given.slice(0, 5), ['--no-buffer', '--fail-with-body', 'https://host/api/deploy/upload', '--header', '@-'])
  t.same(given.slice(5, 9), ['--form', 'projectId=proj_abc', '--form', 'file=@site.zip'])
  t.equal(given[9], 'Authorization: Bearer tok-1', 'passed through standard input')
  for (const answer of [`${log}\n{"event":"status","status":"failed"}`, log, '{"error":"Permission denied"}', '']) {
    t.equal(run(answer).code, 1, answer)
  }
})

t.test('says which token the command contains', async t => {
  t.match(tokenHint({ token: 'tok-1' }), 'the deploy token of the project')
  t.match(tokenHint({ token: null }), ownToken, 'the server tells the token to admins only')
})
