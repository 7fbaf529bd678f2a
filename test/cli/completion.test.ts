import { spawnSync } from 'node:child_process'
import { join } from 'node:path'
import t from 'tap'
import { renderCompletion, shells, type CompletionRow } from '../../lib/cli/completion.js'
import { svc } from '../support/svc.js'

const has = (shell: string) => spawnSync(shell, ['-c', 'exit']).status === 0
const without = (shell: string) => !has(shell) && `${shell} is not installed`

t.test('every shell gets every command and option, from the tables', async t => {
  const row = { type: 'text', choices: ['red', 'blue'], alias: 'c', help: 'it\'s [a] "colour"' } as const
  const rows: CompletionRow[] = [
    { name: 'paint', summary: 'paint: it', command: { operands: {}, options: { colour: row, dry: { type: 'switch', default: true, help: 'wet' } } } },
    { name: 'admin lock', summary: 'lock', command: null }
  ]
  for (const shell of shells) {
    const script = renderCompletion(shell, rows)
    for (const word of ['paint', 'admin', 'lock', 'colour', 'no-dry', 'red blue', 'help']) t.match(script, word, `${shell}: ${word}`)
  }
})

t.test('bash', { skip: without('bash') }, async t => {
  const cwd = t.testdir({ 'script.bash': (await svc(['completion', 'bash'], { cwd: t.testdir({}) })).stdout, 'a.zip': '' })
  const complete = (line: string): string[] => {
    const { stdout, stderr } = spawnSync('bash', ['--norc', '-c', `source "$1"; COMP_LINE=$2 COMP_POINT=\${#2}; _svc; printf '%s\\n' "\${COMPREPLY[@]}"`, '-', join(cwd, 'script.bash'), line], { cwd, encoding: 'utf8' })
    t.equal(stderr, '', line)
    return stdout.trim().split('\n').filter(Boolean)
  }
  const cases: Array<[line: string, expected: string[]]> = [
    ['svc pus', ['push']],
    ['svc ro', ['rollback']],
    ['svc config:s', ['set']],
    ['svc push --tok', ['--token']],
    ['svc push --no-ig', ['--no-ignore-builtin']],
    ['svc serve --runtime ', ['auto', 'node', 'bun']],
    ['svc serve --runtime b', ['bun']],
    ['svc admin ', ['reset-password']],
    ['svc admin reset-password --ra', ['--random']],
    ['svc help doc', ['doctor']],
    ['svc push --out a', ['a.zip']],
    ['svc nothing --x', []]
  ]
  for (const [line, expected] of cases) t.same(complete(line), expected, line)
  t.ok(complete('svc ').includes('doctor'))
})

for (const shell of ['zsh', 'fish'] as const) {
  t.test(`${shell} can read its script`, { skip: without(shell) }, async t => {
    const { stdout } = await svc(['completion', shell], { cwd: t.testdir({}) })
    const { status, stderr } = spawnSync(shell, ['-n', join(t.testdir({ script: stdout }), 'script')], { encoding: 'utf8' })
    t.equal(status, 0, stderr)
  })
}
