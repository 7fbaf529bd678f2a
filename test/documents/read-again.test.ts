import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { commands } from '../../lib/cli/command-table.js'
import { top } from './document.js'

/* docs/fleet.md lists every file that a running program depends on, and when it is read again. */

/** Files that the program writes. */
const written = new Set(['ready-file'])

t.test('the table of what is read again has every option that names a file', async t => {
  const text = readFileSync(join(top, 'docs', 'fleet.md'), 'utf8')
  const [table = ''] = /\| file or secret \| read \|\n(?:\|.*\n)+/.exec(text) ?? []
  const named = [...table.matchAll(/^\| (.*?) \|/gm)].flatMap(([, cell = '']) =>
    [...cell.matchAll(/`--([\w-]+)`/g)].map(([, option = '']) => option)
  )
  const files = new Set<string>()
  for (const row of commands.filter(({ name }) => name === 'serve' || name === 'agent')) {
    const command = await row.load()
    for (const [name, option] of Object.entries(command.options))
      if ('value' in option && option.value === 'file' && !written.has(name)) files.add(name)
  }
  t.strictSame([...named].sort(), [...files].sort())
  t.ok(files.size > 7)
})
