import type { Words } from '../t.js'

/** Texts of `pages/labels.ts`. */
export const words: Words = {
  'Use them to group projects and to filter the project list.': '用于整理项目：项目列表可按它们筛选。',
  'the labels': '列表',
  Categories: '分类',
  'New category': '新建分类',
  'Change category': '修改分类',
  'No categories yet. A project has at most one, for example “Customers” or “Internal”.':
    '还没有分类。每个项目最多属于一个分类，例如“客户”“内部”。',
  'Its projects will have no category. Nothing else changes.': '其中的项目将不再属于任何分类，其余不变。',
  Tags: '标签',
  'New tag': '新建标签',
  'Change tag': '修改标签',
  'No tags yet. A project can have several, for example “php”, “nightly” or “needs care”.':
    '还没有标签。一个项目可有多个标签，例如“php”“夜间”“需留意”。',
  'It is removed from its projects. Nothing else changes.': '它会从这些项目上移除，其余不变。',
  'Move {name} up': '上移 {name}',
  'Move {name} down': '下移 {name}',
  'Change {name}': '修改 {name}',
  'Delete {name}': '删除 {name}',
  'Delete {name}?': '要删除 {name} 吗？',
  Name: '名称',
  Colour: '颜色',
  Create: '创建',
  Delete: '删除',
  '{count} has it.': '{count}使用它。',
  '{count} have it.': '{count}使用它。',
  '{name} deleted': '已删除 {name}',
  '{name} moved to position {place} of {count}': '{name} 现位于第 {place} 位，共 {count} 个'
}
