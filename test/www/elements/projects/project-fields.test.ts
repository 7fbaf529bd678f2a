import '../../../support/without-dom.js'
import t from 'tap'
import {
  createCommand,
  proposedPath,
  proposedUser,
  curlCommand,
  ownToken,
  pushCommand,
  pushWords,
  tokenHint
} from '../../../../www/elements/projects/project-fields.js'
import { checkUserName } from '../../../../lib/cli/project-options.js'
import { execFileSync, spawnSync } from 'node:child_process'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { svc } from '../../../support/svc.js'

t.test('proposes a directory named after the project', async t => {
  const cases: Array<[base: string, name: string, path: string]> = [
    ['/srv', 'storefront', '/srv/storefront'],
    ['/srv/', 'My Shop: Staging', '/srv/my-shop-staging'],
    ['/srv', ' ../etc ', '/srv/etc'],
    ['/srv', '商店 v1.2', '/srv/商店-v1.2'],
    ['/srv', '///', ''],
    ['/srv', '', ''],
    ['', 'storefront', ''],
    ['C:\\sites', 'a b', 'C:\\sites\\a-b']
  ]
  for (const [base, name, path] of cases) t.equal(proposedPath(base, name), path, `${base} ${name}`)
})

t.test('proposes a system user named after the project', async t => {
  for (const [name, user] of [
    ['storefront', 'storefront'],
    ['My Shop: Staging', 'my-shop-staging'],
    ['Café Zürich', 'cafe-zurich'],
    ['2nd shop', 'nd-shop'],
    [' ../etc ', 'etc'],
    ['-rf', 'rf'],
    ['Root', 'root-site'],
    [`${'a'.repeat(31)} b`, 'a'.repeat(31)],
    ['商店', ''],
    ['商店 shop', 'shop'],
    ['', '']
  ] as const) {
    t.equal(proposedUser(name), user, name)
    if (user !== '') t.doesNotThrow(() => checkUserName(user), name)
  }
})

t.test('the command that creates a project with its user survives any name', async t => {
  t.equal(
    createCommand({ name: 'shop', path: '/srv/shop', user: 'shop' }),
    'svc projects create shop --path /srv/shop --user shop'
  )
  t.match(createCommand({ name: "a'; $(id)", path: '/srv/a b', user: 'a' }), `'a'\\''; $(id)' --path '/srv/a b'`)
})

const project = { id: 'proj_abc', policy: {} }

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

t.test('a project that refuses unsigned releases is told how to sign', async t => {
  const asking = (signatures: object) => pushWords({ policy: { signatures: signatures as never } })
  t.equal(pushWords(project), 'svc push')
  t.equal(asking({ require: 'off', sbom: 'off' }), 'svc push')
  t.equal(asking({ require: 'warn', sbom: 'off' }), 'svc push --sign-key ~/.ssh/id_ed25519')
  t.equal(asking({ require: 'refuse', sbom: 'require' }), 'svc push --sign-key ~/.ssh/id_ed25519 --sbom sbom.json')
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
