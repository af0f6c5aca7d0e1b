"""The documents that cross a wire between the parts of the weather service: one typed record for each.

    bounds      types of fields with their bounds, their JSON schema and the text of a problem; reading of documents
    records     requests and answers
    snapshots   the answer with everything of one instant, in columns

Server and clients use the same records: the server makes the ones that clients read.
"""
