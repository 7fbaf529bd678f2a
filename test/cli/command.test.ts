import t from 'tap'
import { defineCommand, exitCodes } from '../../lib/cli/command.js'

t.test('a command has the name of its row, and exit codes follow the shell', async t => {
  const row = { operands: {}, options: {}, examples: [['x', 'do x']], run: async () => 0 } as const
  t.equal(defineCommand(row), row)
  t.strictSame(exitCodes, { success: 0, failed: 1, usage: 2, interrupted: 130 })
})
