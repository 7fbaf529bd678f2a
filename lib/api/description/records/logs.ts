/* Schemas of log sources and their content. */
import { logKinds, type LogSource, type LogSourceMeta, type LogWindow } from '../../../model/log-source.js'
import { boolean, described, instant, integer, list, named, oneOf, record, text } from '../schema.js'
import { bytes, projectId } from './common.js'

/** The fields that all schemas of a log source have. */
export const logSourceFields = {
  id: text('lsrc_1a2b3c4d5e6f7a8b'),
  label: text('Shop'),
  filePath: described('Absolute path of the log file', text('/var/log/shop.log')),
  kind: described(
    'What the lines are: text, JSON objects, text with terminal colors, output of a PM2 application, or lines of nginx',
    oneOf(logKinds)
  )
}

/** A log source. */
export const logSource = named(
  'LogSource',
  record<LogSource>({
    ...logSourceFields,
    projectId,
    sortOrder: integer(0),
    createdAt: instant,
    updatedAt: instant
  })
)

/** The size and the real path of a log file. */
export const logSourceMeta = record<LogSourceMeta>({
  ...logSourceFields,
  resolvedPath: described('The path after following symbolic links', text('/var/log/shop.log')),
  size: described('Size in bytes. For a compressed file, the uncompressed size', bytes)
})

/** Lines of a log file. */
export const logWindow = record<LogWindow>({
  startOffset: described('Byte offset of the first line', bytes),
  endOffset: described('Byte offset after the last line', bytes),
  fileSize: described('Size of the file in bytes', bytes),
  lines: list(text('GET /')),
  truncatedHead: described('Whether the file has more lines before these', boolean(true)),
  truncatedTail: described('Whether the file has more lines after these', boolean(false)),
  binary: described('Whether the file is binary', boolean(false))
})
