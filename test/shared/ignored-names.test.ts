import t from 'tap'
import { isBroughtAlong } from '../../lib/shared/ignored-names.js'

t.test('spares what a complete build output brings along, and nothing beside it', t => {
  const table: Array<[name: string, directory: string, isSpared: boolean]> = [
    ['node_modules', '/a/.next/standalone', true],
    ['.next', '.next/standalone', true],
    ['node_modules', '.next/standalone/apps/web', true],
    ['node_modules', '.output/server', true],
    ['.git', '.next/standalone', false],
    ['node_modules', '.next', false],
    ['node_modules', '.next/standalone-copy', false],
    ['node_modules', 'my.output', false]
  ]
  for (const [name, directory, isSpared] of table)
    t.equal(isBroughtAlong(name, directory), isSpared, `${directory}/${name}`)
  t.end()
})
