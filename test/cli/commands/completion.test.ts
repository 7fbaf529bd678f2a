import { spawnSync } from 'node:child_process'
import { join } from 'node:path'
import t from 'tap'
import { commands } from '../../../lib/cli/command-table.js'
import { findProgram } from '../../support/programs.js'
import { svc } from '../../support/svc.js'

for (const shell of ['bash', 'zsh', 'fish']) {
  t.test(`the script for ${shell} contains every command, and ${shell} accepts it`, async t => {
    const { code, stdout } = await svc(['completion', shell], { cwd: t.testdir({}) })
    t.equal(code, 0)
    for (const { name, hidden } of commands) if (hidden !== true) t.match(stdout, name.split(' ')[0])
    const script = join(t.testdir({ script: stdout }), 'script')
    const program = findProgram(shell)
    if (program === null) return t.comment(`${shell} is not on this machine`)
    t.match(spawnSync(program, ['-n', script], { encoding: 'utf8' }), { status: 0, stderr: '' })
  })
}

t.test('refuses another shell and lists the supported ones', async t => {
  t.match(await svc(['completion', 'tcsh'], { cwd: t.testdir({}) }), { code: 2, stdout: '', stderr: /bash.*zsh.*fish/ })
})
