/* Schemas of settings. */
import type { SettingDescription } from '../../../model/setting.js'
import { described, dictionary, nullable, oneOf, optional, record, schema, text } from '../schema.js'

/** The description of a setting. */
export const settingDescription = record<SettingDescription>({
  key: text('max_upload_size'),
  type: oneOf(['text', 'secret', 'number', 'flag', 'list'], 'number'),
  unit: described('Unit of the value, or null', nullable(text('MB'))),
  default: text('500'),
  help: text('Maximum size of an archive.'),
  choices: optional(
    described(
      'The possible items of a list',
      schema<readonly string[]>({ type: 'array', items: { type: 'string' } }, ['deploy_success'])
    )
  )
})

/** The values of settings by key. */
export const settingValues = dictionary(text('500'), { max_upload_size: '500' })
