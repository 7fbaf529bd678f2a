import t from 'tap'
import { commands } from '../../lib/cli/command-table.js'

t.test('every command has an example that begins with its name', async t => {
  for (const { name, load } of commands) {
    if (name === 'help') continue
    const { examples } = await load()
    t.ok(examples.length > 0, `${name} has an example`)
    for (const [line] of examples) t.match(line, name)
  }
})
