/** The keywords of JSON Schema that the description uses. */
export interface JsonSchema {
  type?: string | string[]
  const?: unknown
  enum?: readonly unknown[]
  description?: string
  format?: string
  pattern?: string
  minLength?: number
  maxLength?: number
  minimum?: number
  maximum?: number
  minItems?: number
  maxItems?: number
  items?: JsonSchema
  properties?: Record<string, JsonSchema>
  required?: string[]
  additionalProperties?: JsonSchema | false
  anyOf?: JsonSchema[]
  not?: JsonSchema
  $ref?: string
  contentMediaType?: string
}
