import { execFileSync } from 'node:child_process'
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

t.test('returns one curl command over several lines', async t => {
  const given = givenTo('curl', curlCommand(project, 'https://host', 'tok-1'))
  t.same(given.slice(0, 5), ['--no-buffer', '--fail-with-body', 'https://host/api/deploy/upload', '--header', '@-'])
  t.same(given.slice(5, 9), ['--form', 'projectId=proj_abc', '--form', 'file=@site.zip'])
  t.equal(given[9], 'Authorization: Bearer tok-1', 'passed through standard input')
})

t.test('says which token the command contains', async t => {
  t.match(tokenHint({ token: 'tok-1' }), 'the deploy token of the project')
  t.match(tokenHint({ token: null }), ownToken, 'the server tells the token to admins only')
})
