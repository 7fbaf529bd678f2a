import { resolve } from 'node:path'
import { defineCommand, exitCodes } from '../command.js'
import { withInterrupts } from '../interrupts.js'
import { splitList } from '../lists.js'
import { packProject } from '../packing.js'
import { loadConfiguration } from '../session.js'
import { packOptions, sharedOptions } from '../common-options.js'

export const command = defineCommand({
  operands: {},
  options: {
    env: sharedOptions.env,
    ...packOptions,
    file: { type: 'text', value: 'path', default: '.deploy-archive.zip', help: 'where the archive is written' },
    json: { type: 'switch', help: 'print {path, bytes, files, sha256} as JSON' }
  },
  details: 'The archive is what "svc push" would upload. Its default name is among the built-in ignore rules.',
  examples: [
    ['build', 'pack what svc.config.json says into .deploy-archive.zip'],
    ['build --out dist --file /tmp/site.zip', 'another directory, into another file']
  ],
  async run({ options }, context) {
    const { output } = context
    const { config } = await loadConfiguration(context, {
      flags: { out: options.out, ignore: options.ignore.flatMap(splitList), noIgnoreBuiltin: !options['ignore-builtin'] },
      env: options.env,
      project: 'needed'
    })
    const path = resolve(context.cwd, options.file)
    const { bytes, files, sha256 } = await withInterrupts(context.host, signal =>
      packProject(context, config, { path, signal })
    )
    if (options.json) output.json({ path, bytes, files, sha256 })
    else output.print(path)
    return exitCodes.success
  }
})
