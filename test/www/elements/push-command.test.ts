import { execFileSync } from 'node:child_process'
import t from 'tap'
import { curlCommand, pushCommand } from '../../../www/elements/push-command.js'

const project = { id: 'proj_abc' }

/** What a program named `name` would be given when a shell runs the commands: its words, then its standard input. */
function givenTo(name: string, commands: string): string[] {
  const script = `${name}() { printf '%s\\0' "$@"; case " $* " in *" - "*|*" @- "*) cat;; esac; printf '\\0'; }\n${commands}`
  return execFileSync('sh', ['-c', script], { input: '' }).toString().split('\0').slice(0, -1)
}

t.test('the commands name server and project as a shell takes them, and pipe the token', async t => {
  const token = "it's $HOME `id`"
  const given = givenTo('svc', pushCommand(project, 'https://host/tools/svc', token))
  t.same(given.slice(0, 7), ['init', '--server', 'https://host/tools/svc', '--project', 'proj_abc', '--token', '-'])
  t.equal(given[7], token, 'through standard input')
  t.equal(given[8], 'push')
})

t.test('the same with curl, in one command over several lines', async t => {
  const given = givenTo('curl', curlCommand(project, 'https://host', 'tok-1'))
  t.same(given.slice(0, 5), ['--no-buffer', '--fail-with-body', 'https://host/api/deploy/upload', '--header', '@-'])
  t.same(given.slice(5, 9), ['--form', 'projectId=proj_abc', '--form', 'file=@site.zip'])
  t.equal(given[9], 'Authorization: Bearer tok-1', 'through standard input')
})
