import { resolve } from 'node:path'
import { defineCommand, type Family, option, toggle } from '../command.js'
import { packOptions, sharedOptions } from '../common-options.js'
import { listIgnored, packProject, packConfiguration } from '../pack/pack.js'
import { withInterrupts } from '../terminal/prompt.js'

/** The command that packs a build. */
export const commands = {
  build: defineCommand({
    options: {
      env: sharedOptions.env,
      ...packOptions,
      file: option('path', 'path of the archive to write', { default: '.deploy-archive.zip' }),
      json: toggle('print {path, bytes, files, sha256} as JSON')
    },
    details: 'Writes the archive that "svc push" would upload. The built-in ignore rules include its default name.',
    examples: [
      ['build', 'pack the files that svc.config.json names into .deploy-archive.zip'],
      ['build --out dist --file /tmp/site.zip', 'pack another directory into another file']
    ],
    async run({ options }, context) {
      const config = await packConfiguration(context, options)
      await listIgnored(context, config, options)
      const path = resolve(context.cwd, options.file)
      const { bytes, files, sha256 } = await withInterrupts(context.host, signal =>
        packProject(context, config, { path, signal })
      )
      context.output.result(options.json, { path, bytes, files, sha256 }, path)
    }
  })
} satisfies Family
