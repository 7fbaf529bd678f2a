import { chmod } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import { isProgram } from '../../lib/base/is-program.js'

t.test('a program is an executable file', async t => {
  const directory = t.testdir({ program: '', text: '', below: {} })
  await chmod(join(directory, 'program'), 0o755)
  await chmod(join(directory, 'text'), 0o644)
  t.equal(await isProgram(join(directory, 'program')), true)
  if (process.platform !== 'win32') t.equal(await isProgram(join(directory, 'text')), false)
  t.equal(await isProgram(join(directory, 'below')), false)
  t.equal(await isProgram(join(directory, 'none')), false)
})
