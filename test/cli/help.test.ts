import t from 'tap'
import { defineCommand } from '../../lib/cli/command.js'
import { renderCommand, renderOverview, shownFlag } from '../../lib/cli/help.js'

const command = defineCommand({
  operands: { deployId: { required: true, help: 'the deployment' }, other: { help: 'another one' } },
  options: {
    follow: { type: 'switch', alias: 'f', help: 'follow it' },
    builtin: { type: 'switch', default: true, help: 'no built-in rules' },
    limit: { type: 'count', value: 'number', default: 5, maximum: 50, help: 'so many' },
    ignore: { type: 'text', value: 'glob', repeatable: true, help: `left out ${'and so on '.repeat(12)}` },
    store: { type: 'text', choices: ['global', 'local'], default: 'global', help: 'where it is kept' }
  },
  details: 'More to know.',
  examples: [
    ['logs dep_1', 'print it'],
    ['logs -f dep_1', 'follow it']
  ],
  run: async () => 0
})

t.test('renderCommand makes the page of a command from its tables', async t => {
  t.matchOnly(
    renderCommand({ name: 'logs', summary: 'print the output' }, command)
      .split('\n')
      .map(line => line.trimEnd()),
    [
      'svc logs: print the output',
      '',
      'Usage: svc logs <deployId> [other] [options]',
      '',
      'Operands:',
      '  deployId  the deployment',
      '  other     another one',
      '',
      'Options:',
      '  -f, --follow            follow it',
      '  --no-builtin            no built-in rules',
      '  --limit <number>        so many (default 5, at most 50)',
      /^ {2}--ignore <glob> {9}left out and so on .{60,75}$/,
      /^ {26}[ andsoo]+ {1,2}\(repeatable\)$/,
      '  --store <global|local>  where it is kept (default global)',
      '  -h, --help              this page',
      '',
      'More to know.',
      '',
      'Examples:',
      '  svc logs dep_1',
      '      print it',
      '  svc logs -f dep_1',
      '      follow it',
      ''
    ]
  )
})

t.test('renderOverview names every command', async t => {
  t.match(renderOverview([{ name: 'push', summary: 'pack and deploy' }]), /^ {2}push {2}pack and deploy$/m)
})

t.test('shownFlag shows a switch that is on as the way to turn it off', async t => {
  t.equal(shownFlag('builtin', { type: 'switch', default: true, help: '' }), '--no-builtin')
  t.equal(shownFlag('follow', { type: 'switch', help: '' }), '--follow')
})
