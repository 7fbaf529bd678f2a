import { chmodSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { findDirectory, findShell, shellEnvironment } from '../../lib/terminal/shell.js'

t.test('uses $SHELL if it is a shell, otherwise sh', async t => {
  const directory = t.testdir({ myshell: '', plain: '', nologin: '' })
  chmodSync(join(directory, 'myshell'), 0o755)
  chmodSync(join(directory, 'nologin'), 0o755)
  t.equal(findShell({ SHELL: join(directory, 'myshell') }), join(directory, 'myshell'))
  for (const SHELL of ['', 'bash', join(directory, 'missing'), directory, join(directory, 'nologin'), '/bin/false']) {
    t.equal(findShell({ SHELL }), '/bin/sh', SHELL)
  }
  t.equal(findShell({}), '/bin/sh')
})

t.test('starts a session in the target, in the home directory, or at the root', async t => {
  const directory = t.testdir({ target: {}, file: '' })
  const HOME = directory
  t.equal(findDirectory(join(directory, 'target'), { HOME }), join(directory, 'target'))
  t.equal(findDirectory(join(directory, 'not-deployed-yet'), { HOME }), directory)
  t.equal(findDirectory(join(directory, 'file'), { HOME }), directory)
  t.equal(findDirectory(null, { HOME }), directory)
  t.equal(findDirectory(null, { HOME: join(directory, 'missing') }), '/')
})

t.test('passes no secrets of svc and nothing of another terminal, and sets a locale', async t => {
  const environment = {
    PATH: '/bin',
    ADMIN_TOKEN: 'secret',
    SVC_TOKEN: 'secret',
    SVC_HOME: '/x',
    TMUX: '1',
    COLUMNS: '1',
    HOME: '/home/a',
    TERM: 'dumb'
  }
  t.same(shellEnvironment(environment, '/bin/sh'), {
    PATH: '/bin',
    HOME: '/home/a',
    LANG: 'C.UTF-8',
    SHELL: '/bin/sh',
    TERM: 'xterm-256color',
    COLORTERM: 'truecolor'
  })
  t.equal(shellEnvironment({ LC_ALL: 'de_DE.UTF-8' }, '/bin/sh')['LANG'], undefined)
  t.equal(shellEnvironment({ LANG: 'en_US.UTF-8' }, '/bin/sh')['LANG'], 'en_US.UTF-8')
})
