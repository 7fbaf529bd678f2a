import t from 'tap'
import { normalDirectory, scriptDirectoryFault, scriptShellFault } from '../../lib/model/script-settings.js'

t.test('shells', async t => {
  for (const shell of ['sh', 'bash', '/bin/zsh', '/opt/a b/sh']) t.equal(scriptShellFault(shell), null, shell)
  for (const shell of ['zsh', './sh', 'bin/sh', '/', '/bin/', 'bash -x'])
    t.match(scriptShellFault(shell), /neither "sh", "bash" nor/, shell)
  t.match(scriptShellFault('/bin/\nsh'), /invisible/)
  t.match(scriptShellFault(`/${'x'.repeat(4096)}`), /longer/)
})

t.test('checks working directories', async t => {
  for (const [given, kept] of [
    ['apps/web', 'apps/web'],
    ['./apps//web/', 'apps/web'],
    ['.', null],
    ['..x', '..x'],
    ['a\\b', 'a/b']
  ] as const) {
    t.equal(scriptDirectoryFault(given), null, given)
    t.equal(normalDirectory(given), kept, given)
  }
  for (const [given, why] of [
    ['/srv', /not relative/],
    ['..', /leaves the target/],
    ['a/../../b', /leaves the target/],
    ['a\\..\\b', /leaves the target/],
    ['a\0', /invisible/]
  ] as const) {
    t.match(scriptDirectoryFault(given), why, JSON.stringify(given))
  }
})
