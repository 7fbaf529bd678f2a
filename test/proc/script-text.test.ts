import t from 'tap'
import { interpreterOf, scriptTextOf, textOptionOf } from '../../lib/proc/script-text.js'

t.test('normalises what editors on Windows write, and nothing else', t => {
  t.equal(scriptTextOf('\ufeffa\r\nb\r'), 'a\nb')
  t.equal(scriptTextOf('a\rb\n\n'), 'a\rb\n\n')
  t.end()
})

t.test('reads the line that names the interpreter', t => {
  t.strictSame(interpreterOf('#!/bin/bash -e -u\nx'), { program: '/bin/bash', words: ['-e', '-u'] })
  t.strictSame(interpreterOf('#!/usr/bin/env A=1 bash'), { program: '/usr/bin/env', words: ['A=1', 'bash'] })
  t.equal(interpreterOf('echo #!/bin/bash'), null)
  t.strictSame(['/bin/zsh', 'python3.11', 'perl', '/usr/bin/awk'].map(textOptionOf), ['-c', '-c', '-e', null])
  t.end()
})
